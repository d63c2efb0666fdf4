//! Bodies that a server compresses unasked.
//!
//! We ask for none (`accept-encoding: identity`). A gateway may compress all the same; then a token's time is that of the
//! read which let it be inflated.

use std::io::Write;

use flate2::write::{GzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// Inflates a body piece by piece.
pub(crate) enum Inflate {
    Gzip(GzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
}

impl Inflate {
    /// What the body behind these headers needs, and takes the encoding out of them; `None` for a plain body, and for an
    /// encoding that we do not speak, which stays to be named as the reason why the reply cannot be read.
    pub(crate) fn take(headers: &mut HeaderMap) -> Option<Self> {
        let name = headers.get(CONTENT_ENCODING)?.to_str().ok()?.trim();
        let inflate = if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            Inflate::Gzip(GzDecoder::new(Vec::new()))
        } else if name.eq_ignore_ascii_case("deflate") {
            Inflate::Deflate(ZlibDecoder::new(Vec::new()))
        } else {
            return None;
        };
        headers.remove(CONTENT_ENCODING);
        Some(inflate)
    }

    /// Takes in a piece and gives what it lets be inflated to `out`.
    ///
    /// # Errors
    /// When the data are not what the header says.
    pub(crate) fn push<T>(&mut self, piece: &[u8], out: impl FnOnce(&[u8]) -> T) -> std::io::Result<T> {
        let inflated = match self {
            Inflate::Gzip(decoder) => {
                decoder.write_all(piece)?;
                decoder.flush()?;
                decoder.get_mut()
            }
            Inflate::Deflate(decoder) => {
                decoder.write_all(piece)?;
                decoder.flush()?;
                decoder.get_mut()
            }
        };
        let outcome = out(inflated);
        inflated.clear();
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn headers(encoding: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, encoding.parse().unwrap());
        headers
    }

    #[test]
    fn what_was_flushed_comes_out_at_once_however_it_was_cut() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"data: one\n\n").unwrap();
        encoder.flush().unwrap();
        let first = encoder.get_ref().len();
        encoder.write_all(b"data: two\n\n").unwrap();
        let whole = encoder.finish().unwrap();

        let mut inflate = Inflate::take(&mut headers("gzip")).unwrap();
        let mut text = Vec::new();
        inflate
            .push(&whole[..first], |piece| text.extend_from_slice(piece))
            .unwrap();
        assert_eq!(text, b"data: one\n\n");
        for byte in &whole[first..] {
            inflate
                .push(&[*byte], |piece| text.extend_from_slice(piece))
                .unwrap();
        }
        assert_eq!(text, b"data: one\n\ndata: two\n\n");
    }

    #[test]
    fn encodings_are_known_or_stay() {
        assert!(Inflate::take(&mut HeaderMap::new()).is_none());
        assert!(Inflate::take(&mut headers("identity")).is_none());
        let mut zipped = headers("X-GZIP");
        assert!(Inflate::take(&mut zipped).is_some() && zipped.is_empty());
        let mut unknown = headers("br");
        assert!(Inflate::take(&mut unknown).is_none() && unknown.len() == 1);
        let mut lie = Inflate::take(&mut headers("gzip")).unwrap();
        assert!(lie.push(b"not gzip at all", |_| ()).is_err());
    }
}
