//! File descriptors: one a connection, so a level needs as many.

/// Descriptors that the process needs besides its connections: files, event queues, standard streams, probes.
const BESIDES: u64 = 128;

/// Makes sure that `level` connections can be open at once, raising the soft limit where it is too low.
///
/// Returns a sentence when the limit was raised.
///
/// # Errors
/// When the hard limit is too low: the message names it and the remedy.
pub fn check_descriptors(level: u32) -> Result<Option<String>, String> {
    let need = u64::from(level) + BESIDES;
    // Where limits cannot be asked for there is none to raise: a connection that cannot open will say so.
    let Ok((soft, hard)) = limit() else {
        return Ok(None);
    };
    if soft >= need {
        return Ok(None);
    }
    if hard < need {
        return Err(refusal(level, need, hard));
    }
    match raise(need, hard) {
        Ok(()) => Ok(Some(format!(
            "raised the limit of open files from {soft} to {need} for level {level}"
        ))),
        Err(error) => Err(format!(
            "level {level} needs {need} open files but the limit is {soft} and could not be raised ({error}); run \
             `ulimit -n {need}` first"
        )),
    }
}

/// The highest level for which this process may have connections; `None` where the system does not tell, or knows no limit.
#[must_use]
pub fn highest_level() -> Option<u32> {
    let (_, hard) = limit().ok()?;
    u32::try_from(hard.saturating_sub(BESIDES)).ok()
}

/// What to do about a hard limit that is too low. A lower level helps only where the limit leaves room for one.
fn refusal(level: u32, need: u64, hard: u64) -> String {
    let lower = match hard.saturating_sub(BESIDES) {
        0 => String::new(),
        most => format!(", or ask for a level of at most {most}"),
    };
    format!(
        "level {level} needs {need} open files but the hard limit is {hard}; raise it (`ulimit -Hn {need}` as root, or \
         LimitNOFILE= of the service){lower}"
    )
}

/// How many of `wanted` connections can be open at once, after raising the soft limit as far as that needs and the hard
/// limit allows.
pub(crate) fn most_connections(wanted: u32) -> u32 {
    let Ok((soft, hard)) = limit() else {
        return wanted;
    };
    let need = (u64::from(wanted) + BESIDES).min(hard);
    let allowed = if soft >= need || raise(need, hard).is_ok() {
        need.max(soft)
    } else {
        soft
    };
    wanted.min(u32::try_from(allowed.saturating_sub(BESIDES)).unwrap_or(u32::MAX))
}

#[cfg(unix)]
fn limit() -> std::io::Result<(u64, u64)> {
    rlimit::Resource::NOFILE.get()
}

#[cfg(unix)]
fn raise(soft: u64, hard: u64) -> std::io::Result<()> {
    rlimit::Resource::NOFILE.set(soft, hard)
}

#[cfg(not(unix))]
fn limit() -> std::io::Result<(u64, u64)> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn raise(_soft: u64, _hard: u64) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lower_level_is_advised_only_where_there_is_one() {
        assert!(refusal(200, 328, 300).ends_with(", or ask for a level of at most 172"));
        let none = refusal(64, 192, 128);
        assert!(none.ends_with("of the service)"), "{none}");
    }

    #[test]
    fn a_limit_that_is_too_low_is_raised_or_named() {
        assert_eq!(check_descriptors(1), Ok(None));
        let (soft, hard) = limit().unwrap();
        if hard < 4_000_000_000 {
            let error = check_descriptors(u32::MAX).unwrap_err();
            assert!(error.contains("hard limit"), "{error}");
        }
        if soft > 400 && hard != rlimit::INFINITY {
            // Lowering the soft limit is always allowed; the check must bring it back up.
            raise(300, hard).unwrap();
            let said = check_descriptors(200).unwrap().unwrap();
            assert!(said.contains("from 300 to 328"), "{said}");
            raise(soft, hard).unwrap();
        }
    }
}
