//! A server that answers exactly as told: the truth that timing and failure tests compare with.
//!
//! [`Scripted::start`] opens a free loopback port on a thread of its own and serves an OpenAI-shaped API
//! (`/v1/models`, `/v1/chat/completions`, `/v1/completions`, `/health`) by a [`Script`]. The wire is raw HTTP/1.1
//! over a TCP stream, so that the server can misbehave at byte level. What it did is told by
//! [`Scripted::seen`]: requests, connections, the highest concurrency and the instant of every token.
//!
//! ```
//! use std::time::Duration;
//! use plimsoll_scripted::{Fault, Script, Scripted, When};
//!
//! let ms = Duration::from_millis;
//! let server = Scripted::start(
//!     Script::default()
//!         .ttft(ms(60))
//!         .itl(ms(20))
//!         .tokens(3)
//!         .fault(When::Every(10), Fault::Status(500)),
//! )?;
//! let url = server.url(); // http://127.0.0.1:PORT
//! // drive it, then compare
//! assert_eq!(server.seen().requests, 0);
//! # assert!(url.starts_with("http://127.0.0.1:"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Three conventions hold everywhere:
//!
//! - Time runs by absolute deadlines that start when a request has been read to its last byte (or, with
//!   [`Script::slots`], when its turn has come), so a late write never delays the next one. The timer is 1 ms
//!   coarse; it is late, never early. The instants in [`Served`] are those of the writes themselves.
//! - A request is *in flight* from its last byte read until just before its last byte is written. A client that
//!   keeps C requests in flight is therefore never seen with C + 1.
//! - A client that goes away ends its request at once.
//!
//! | file | idea |
//! |---|---|
//! | `script` | what the server is told |
//! | `fault` | how a request may fail |
//! | `seen` | what the server saw |
//! | `server` | port, thread, connections |
//! | `connection` | bytes: requests read, answers written, waits that notice a client leaving |
//! | `route` | from path, key and parameters to an answer |
//! | `generation` | one completion, by the schedule |
//! | `openai` | JSON in OpenAI's shapes |
//! | `shapes` | the same in the shapes of other APIs |
//! | `case` | byte streams read from a fixture file |
//! | `certificate` | a throw-away certificate authority |

mod case;
mod certificate;
mod connection;
mod fault;
mod generation;
mod openai;
mod route;
mod script;
mod seen;
mod server;
mod shapes;

pub use case::Cases;
pub use fault::{Fault, Page, When};
pub use script::{Overload, Script, Usage};
pub use seen::{Seen, SeenRequest, Served};
pub use server::{Scripted, closed_port};
pub use shapes::Shape;
