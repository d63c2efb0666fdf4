//! How long a slot waits after a request that failed fast, so that it does not spin.

use std::time::Duration;

use http::HeaderMap;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
/// The longest `Retry-After` that is honoured: a rung does not wait minutes for one slot.
const LONGEST_ASKED: Duration = Duration::from_secs(5);

/// Doubling waits after failures in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// A request went well.
    pub(crate) fn reset(&mut self) {
        self.last = None;
    }

    /// A request failed after `took`; `asked` is what the server asked for. Returns how long to wait.
    pub(crate) fn after(&mut self, took: Duration, asked: Option<Duration>) -> Duration {
        let wait = self.last.map_or(FIRST, |last| (2 * last).min(LONGEST));
        self.last = Some(wait);
        match asked {
            Some(asked) => asked.min(LONGEST_ASKED).max(wait),
            // A failure that took its time did not spin.
            None => wait.saturating_sub(took),
        }
    }
}

/// How long a `Retry-After` header asks to wait, given in seconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?;
    match text.trim().parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            // A date that has passed asks for no wait.
            Some(
                date.duration_since(std::time::SystemTime::now())
                    .unwrap_or(Duration::ZERO),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_second() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..7).map(|_| backoff.after(Duration::ZERO, None)).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1000, 1000].map(ms));
        backoff.reset();
        assert_eq!(backoff.after(ms(20), None), ms(30));
        assert_eq!(backoff.after(ms(500), None), ms(0));
        assert_eq!(backoff.after(ms(0), Some(ms(2000))), ms(2000));
        assert_eq!(backoff.after(ms(0), Some(ms(100_000))), ms(5000));
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_date() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers), None);
        headers.insert("retry-after", "2".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(2)));
        headers.insert("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::ZERO));
        let later = std::time::SystemTime::now() + Duration::from_secs(100);
        headers.insert("retry-after", httpdate::fmt_http_date(later).parse().unwrap());
        assert!(retry_after(&headers).unwrap() > Duration::from_secs(90));
        headers.insert("retry-after", "soon".parse().unwrap());
        assert_eq!(retry_after(&headers), None);
        headers.insert("retry-after", "-1".parse().unwrap());
        assert_eq!(retry_after(&headers), None);
    }
}
