//! What a command sends to the proxies, to the resolver and past the relay is read or refused: where an HTTP
//! request goes, the messages of SOCKS5, DNS queries, and datagrams.
#![no_main]

use hyper::Request;
use libfuzzer_sys::fuzz_target;
use stockade_network_proxy::{HttpTarget, Parsed, credentials, greeting, read_target, request};
use stockade_protocol::Host;

fuzz_target!(|data: &[u8]| {
    for length in [greeting(data).map(length), credentials(data).map(length)].into_iter().flatten() {
        assert!(length <= data.len());
    }
    if let Ok(Parsed::Whole(found, length)) = request(data) {
        assert!(length <= data.len());
        found.host.iter().for_each(is_in_its_one_form);
        // What follows a message is not part of it.
        assert_eq!(request(&data[..length]), Ok(Parsed::Whole(found, length)));
    }
    if let Some(answer) = stockade_sandbox_linux::answer_query(data) {
        assert!(answer.len() <= data.len() + 300);
        assert_eq!(answer[..2], data[..2]);
        // An answer is not a query: two resolvers can't be set on each other.
        assert_eq!(stockade_sandbox_linux::answer_query(&answer), None);
    }
    if let Some((count, bytes)) = stockade_sandbox_linux::read_packet(data) {
        // At least the headers of what is around it come on top.
        assert!(count >= 1 && bytes + 52 <= data.len());
        assert!(count <= bytes.max(1));
    }
    if let Some((host, port)) = http(data) {
        is_in_its_one_form(&host);
        assert!(port > 0);
    }
});

fn length<T>(parsed: Parsed<T>) -> usize {
    match parsed {
        Parsed::Whole(_, length) => length,
        Parsed::Incomplete => 0,
    }
}

fn is_in_its_one_form(host: &Host) {
    assert_eq!(host.to_string().parse::<Host>().as_ref(), Ok(host));
}

/// A method, a target and headers, one a line.
fn http(data: &[u8]) -> Option<(Host, u16)> {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut request = Request::builder().method(lines.next()?).uri(lines.next()?);
    for line in lines.take(20) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], &line[colon + 1..]);
    }
    match read_target(&request.body(()).ok()?.into_parts().0) {
        Ok(HttpTarget::Forward { host, port } | HttpTarget::Tunnel { host, port }) => Some((host, port)),
        Err(_) => None,
    }
}
