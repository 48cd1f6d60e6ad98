//! The name that a program looks up, where no name server can be reached: the query that it is about to send.
//!
//! The C libraries make the query on the stack and connect a socket to the name server, which fails where there is no
//! network, so the query is never sent. It is found there by its form. A program that keeps its queries elsewhere is not
//! understood, and one that puts another name there is believed: it could look that one up as well.

use stockade_protocol::Host;

use crate::supervisor::waiting_call::WaitingCall;
use crate::supervisor::{Query, QueryKind};
use crate::sys::notify;

/// How much of the stack is looked at: both queries and the frames of the functions around them.
const LOOKED_AT: usize = 32 * 1024;
const PAGE: u64 = 4096;
const HEADER: usize = 12;
/// The longest query: a header, a name, a type and a class.
const LONGEST_QUERY: usize = HEADER + 256 + 4;

/// What a thread is about to ask a name server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The address of a host.
    Host(Host),
    /// Something else.
    Other,
    /// It can't be found.
    Unknown,
}

/// What a thread asks, that waits for an answer as long as `waits` says so.
pub(super) fn question(thread: i32, waits: impl Fn() -> bool) -> Question {
    let Some(stack) = stack(thread, waits) else { return Question::Unknown };
    let mut queries =
        stack.windows(HEADER).enumerate().filter(|(_, header)| is_header(header)).filter_map(|(start, _)| {
            let message = stack.get(start..stack.len().min(start + LONGEST_QUERY))?;
            Query::read(message).map(|query| host_of(&query))
        });
    match queries.next() {
        None => Question::Unknown,
        Some(first) => first.or_else(|| queries.flatten().next()).map_or(Question::Other, Question::Host),
    }
}

/// What a message asks that is sent to a name server.
pub(super) fn sent(message: &[u8]) -> Question {
    Query::read(message).map_or(Question::Unknown, |query| host_of(&query).map_or(Question::Other, Question::Host))
}

/// The host of a query for an address. A name without a dot is one of this network, if of any.
fn host_of(query: &Query<'_>) -> Option<Host> {
    let asks_for_address = matches!(query.kind, QueryKind::A | QueryKind::Aaaa);
    let host: Host = query.name.parse().ok().filter(|_| asks_for_address && query.name.contains('.'))?;
    matches!(host, Host::Name(_)).then_some(host)
}

/// A plain question: recursion is wanted, one question, no answers, perhaps one record with options.
fn is_header(header: &[u8]) -> bool {
    let &[_, _, 0x01, flags, 0, 1, 0, 0, 0, 0, 0, more] = header else { return false };
    flags & !0x30 == 0 && more <= 1
}

fn stack(thread: i32, waits: impl Fn() -> bool) -> Option<Vec<u8>> {
    let mut from = WaitingCall::of(thread.try_into().ok()?, waits)?.stack_pointer;
    let mut stack = Vec::with_capacity(LOOKED_AT);
    let mut page = [0; PAGE as usize];
    while stack.len() < LOOKED_AT {
        let left = usize::try_from(PAGE - from % PAGE).ok()?;
        let Ok(read) = notify::read_memory(thread, from, page.get_mut(..left)?) else { break };
        stack.extend(page.get(..read)?);
        from = from.checked_add(left as u64)?;
        if read < left {
            break;
        }
    }
    Some(stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u8) -> Vec<u8> {
        let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.bytes());
        }
        query.extend([0, 0, kind, 0, 1]);
        query
    }

    #[test]
    fn a_query_names_its_host() {
        let host = |name, kind| {
            let mut bytes = query(name, kind);
            assert!(is_header(bytes.get(..HEADER).unwrap()));
            bytes.extend([0xff; 64]);
            host_of(&Query::read(&bytes).unwrap()).map(|host| host.to_string())
        };
        assert_eq!(host("packages.example.org", 1).as_deref(), Some("packages.example.org"));
        assert_eq!(host("packages.example.org", 28).as_deref(), Some("packages.example.org"));
        assert_eq!(host("1.2.0.192.in-addr.arpa", 12), None);
        assert_eq!(host("router", 1), None);
        assert!(!is_header(&[0; HEADER]));
    }
}
