#![doc = include_str!("../README.md")]

mod approvals;
mod doors;
mod environment;
mod error;
mod gate;
#[cfg(feature = "http")]
mod http;
#[cfg(not(feature = "http"))]
#[path = "http_absent.rs"]
mod http;
#[cfg(feature = "http")]
mod http_target;
mod local_networks;
mod look_ups;
mod proxy;
#[cfg(feature = "http")]
mod read_only;
mod record;
mod relay;
mod resolve;
mod rules;
mod secret;
mod socks;
mod socks_message;
#[cfg(unix)]
mod sys;
mod transparent;

pub use approvals::{Approvals, Ask, BoxFuture};
pub use environment::environment;
pub use error::Denied;
pub use gate::{Admitted, Gate};
#[cfg(feature = "http")]
pub use http_target::{BadRequest, HttpTarget, read_target};
pub use local_networks::LocalNetworks;
pub use proxy::Proxy;
pub use record::{NotRecorded, Records};
pub use resolve::{Resolver, SystemResolver};
pub use rules::{NamedRule, Rules, Ruling};
pub use secret::Secret;
pub use socks_message::{Command, Credentials, Malformed, Parsed, Request, credentials, greeting, request};
pub use transparent::Transparent;
