//! What a list operation asks for, and the token of its next page.

use serde_json::Value;

use super::error::ApiError;
use super::input::Input;
use crate::job::Status;
use crate::store::{Direction, Listing, Mark, SortBy};

/// Reads a list request. `by_status` for jobs, which have states.
pub(super) fn listing(mut input: Input, by_status: bool) -> Result<Listing, ApiError> {
    const SORTS: [(&str, SortBy); 3] = [
        ("Name", SortBy::Name),
        ("CreationTime", SortBy::CreationTime),
        ("Status", SortBy::Status),
    ];
    let sorts = if by_status { &SORTS[..] } else { &SORTS[..2] };
    let most = input.whole("MaxResults", 1, 100)?.unwrap_or(100);
    let listing = Listing {
        name_contains: input.text("NameContains", 0, 63)?,
        status: if by_status {
            let known = Status::ALL.map(|status| (status.name(), status));
            input.word("StatusEquals", &known)?
        } else {
            None
        },
        after_ms: input.time("CreationTimeAfter")?,
        before_ms: input.time("CreationTimeBefore")?,
        sort: input.word("SortBy", sorts)?.unwrap_or(SortBy::CreationTime),
        direction: input
            .word(
                "SortOrder",
                &[
                    ("Ascending", Direction::Ascending),
                    ("Descending", Direction::Descending),
                ],
            )?
            .unwrap_or(Direction::Descending),
        behind: None,
        most: usize::try_from(most).unwrap_or(100),
    };
    let behind = match input.text("NextToken", 1, 8192)? {
        None => None,
        Some(token) => Some(mark(&token, &listing).ok_or_else(|| {
            input.wrong(
                "NextToken",
                "is not of a list in this order; begin again without it",
            )
        })?),
    };
    input.finish()?;
    Ok(Listing { behind, ..listing })
}

/// The token of a place: hex, so that nobody is tempted to write one.
pub(crate) fn token(mark: &Mark, listing: &Listing) -> String {
    let text = Value::from(vec![order(listing), mark.key.clone(), mark.name.clone()]).to_string();
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn order(listing: &Listing) -> String {
    format!("{:?}{:?}", listing.sort, listing.direction)
}

/// The place of a token, where it is of a list in this order.
pub(crate) fn mark(token: &str, listing: &Listing) -> Option<Mark> {
    let bytes: Option<Vec<u8>> = token
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let [of, key, name]: [String; 3] = serde_json::from_slice(&bytes?).ok()?;
    let usable = of == order(listing) && (listing.sort != SortBy::CreationTime || key.parse::<i64>().is_ok());
    usable.then_some(Mark { key, name })
}
