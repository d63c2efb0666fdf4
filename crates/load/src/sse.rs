//! Server-sent events: where one ends, and what it says.
//!
//! The splitter runs on the hot path and only finds ends; an event is taken apart later, off it. LF, CRLF and CR end
//! a line, an empty line ends an event, and no partition of the bytes into reads changes what is found.

use std::borrow::Cow;

/// Finds the ends of events in bytes that come piece by piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Splitter {
    /// The current line has bytes.
    in_line: bool,
    /// The current event has lines.
    in_event: bool,
    /// The last byte was CR: an LF now belongs to it.
    after_cr: bool,
}

impl Splitter {
    /// Looks through the next `bytes` and calls `ended` with the offset in them just behind each event's end.
    pub(crate) fn push(&mut self, bytes: &[u8], mut ended: impl FnMut(usize)) {
        let mut at = 0;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            at = usize::from(bytes[0] == b'\n');
        }
        while let Some(length) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) {
            let blank = length == 0 && !self.in_line;
            let line_end = at + length;
            at = line_end + 1;
            if bytes[line_end] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.in_line = false;
            if !blank {
                self.in_event = true;
            } else if self.in_event {
                self.in_event = false;
                ended(at);
            }
        }
        if at < bytes.len() {
            self.in_line = true;
        }
    }
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// Nothing: a comment, blank lines, or fields that carry no data.
    Nothing,
    /// Its data; several lines of it are joined by LF.
    Data(Cow<'a, [u8]>),
    /// The data of an event named `error`, or the value of an `error:` field, which llama.cpp used to send in place of
    /// data.
    Error(Cow<'a, [u8]>),
}

/// Takes one event apart.
pub(crate) fn said(event: &[u8]) -> Said<'_> {
    let mut data: Option<Cow<'_, [u8]>> = None;
    let mut failed = false;
    let mut rest = event.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(event);
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        if let Some(value) = field(line, b"data") {
            match &mut data {
                None => data = Some(Cow::Borrowed(value)),
                Some(lines) => {
                    let lines = lines.to_mut();
                    lines.push(b'\n');
                    lines.extend_from_slice(value);
                }
            }
        } else if let Some(value) = field(line, b"error")
            && data.is_none()
        {
            return Said::Error(Cow::Borrowed(value));
        } else if field(line, b"event").is_some_and(|name| name.trim_ascii() == b"error") {
            failed = true;
        }
    }
    match data {
        None => Said::Nothing,
        Some(data) if failed => Said::Error(data),
        Some(data) => Said::Data(data),
    }
}

/// The first line of data of an event, with whatever comes behind it.
pub(crate) fn first_data(event: &[u8]) -> Option<&[u8]> {
    let mut rest = event;
    loop {
        if let Some(data) = field(rest, b"data") {
            return Some(data);
        }
        rest = rest.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(rest);
        if let Some(data) = field(rest, b"data") {
            return Some(data);
        }
        let end = memchr::memchr2(b'\n', b'\r', rest)?;
        rest = rest.get(end + 1..)?;
    }
}

/// The value of `line` when it is that field: one space after the colon is not part of it.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The data of all events when the bytes come in these pieces; what is left at the end is an event too.
    fn events(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut splitter = Splitter::default();
        let mut whole = Vec::new();
        let mut ends = Vec::new();
        for piece in pieces {
            let base = whole.len();
            whole.extend_from_slice(piece);
            splitter.push(piece, |end| ends.push(base + end));
        }
        ends.push(whole.len());
        let mut start = 0;
        let mut found = Vec::new();
        for end in ends {
            match said(&whole[start..end]) {
                Said::Data(data) => found.push(data.into_owned()),
                Said::Error(data) => found.push([b"error ", &data[..]].concat()),
                Said::Nothing => {}
            }
            start = end;
        }
        found
    }

    #[test]
    fn all_line_ends_and_spellings_say_the_same() {
        let wanted = [b"{1}".to_vec(), b"{2}\n{3}".to_vec(), b"[DONE]".to_vec()];
        for end in ["\n", "\r\n", "\r"] {
            for colon in [":", ": "] {
                let text = format!(
                    ": ping\n\n\ndata{colon}{{1}}\nid: 7\n\n:\n\nevent: x\ndata{colon}{{2}}\ndata{colon}{{3}}\n\ndata{colon}[DONE]"
                );
                for tail in ["", "\n", "\n\n"] {
                    let text = format!("{text}{tail}").replace('\n', end);
                    assert_eq!(events(&[text.as_bytes()]), wanted, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn only_one_space_is_stripped_and_a_byte_order_mark_is() {
        assert_eq!(said(b"data:  x\n\n"), Said::Data(Cow::Borrowed(b" x")));
        assert_eq!(said(b"\xEF\xBB\xBFdata: x\n\n"), Said::Data(Cow::Borrowed(b"x")));
        assert_eq!(said(b"data\n\n"), Said::Nothing);
        assert_eq!(said(b"database: x\n\n"), Said::Nothing);
        for event in [
            &b"error: {}\n\n"[..],
            b"event: error\ndata: {}\n\n",
            b"data: {}\nevent:error\n\n",
        ] {
            assert_eq!(said(event), Said::Error(Cow::Borrowed(b"{}")));
        }
    }

    #[test]
    fn the_first_data_is_found_behind_other_fields() {
        for event in [
            &b"data: x\n\n"[..],
            b"data:x\n\n",
            b"\n\ndata: x\n\n",
            b"\xEF\xBB\xBFdata: x\n\n",
            b": ping\r\nid: 7\r\nevent: y\r\ndata: x\n\n",
        ] {
            assert!(first_data(event).unwrap().starts_with(b"x"), "{event:?}");
        }
        for event in [
            &b": ping\n\n"[..],
            b":\n\n",
            b"\n",
            b"",
            b"database: x\n\n",
            b"data\n\n",
        ] {
            assert_eq!(first_data(event), None);
        }
    }

    proptest! {
        #[test]
        fn no_partition_into_reads_changes_the_events(
            bytes in prop::collection::vec(prop::sample::select(b"\r\n:d a{}".to_vec()), 0..80),
            lines in prop::collection::vec(prop::sample::select(
                vec!["data: {\"a\":1}", "data:[DONE]", ":", ": ping", "", "", "event: x", "data: \u{1F600}", "data: \u{2028}x\u{85}"]), 0..12),
            line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            cuts in prop::collection::vec(0_usize..400, 0..12),
        ) {
            let mut text = lines.join(line_end).into_bytes();
            text.extend_from_slice(&bytes);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([text.len()]) {
                pieces.push(&text[start..cut]);
                start = cut;
            }
            prop_assert_eq!(events(&pieces), events(&[&text]));
        }
    }
}
