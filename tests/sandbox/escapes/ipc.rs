//! Keys, shared memory, sockets, the network.

use std::collections::BTreeSet;

use stockade_protocol::{NetworkPolicy, Permissions};

use super::{Attack, Bare, attacks, for_each_user, for_every_engine, hears, prints, probe_succeeds};
use crate::engines::NONE;
use crate::request::Ended;
use crate::support::{program, run, text};
use crate::world::{User, World, abs};

/// A segment of the host, which goes with the world.
fn shared_memory(world: &mut World) {
    let key = world.marker.bytes().fold(17_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let key = (key & 0x7fff_ffff | 1).to_string();
    let probe = |action: &str| {
        let mut probe = program(world.programs.join("probe"));
        world.user.apply(&mut probe);
        probe.args([action, &key]);
        probe
    };
    assert_eq!(text(&run(&mut probe("make-shared-memory"), 0).stdout), "made\n");
    let ending = probe("remove-shared-memory");
    world.endings.push(ending);
    world.variables.push((String::from("SEGMENT"), key));
}

attacks! {
    /// Shared memory of the host.
    ip01 => Attack::with("$PROBE shared-memory $SEGMENT").after(shared_memory).hits(prints("secret"));
    /// A key in the keyring that the caller has.
    ip03 => Attack::with("$PROBE key stockade-test")
        .behind(&["/bin/sh", "-c", "exec \"$PROBE\" with-key stockade-test \"$@\"", "-"])
        .hits(prints("secret"));
    /// A connection that the caller has left open.
    ip04 => Attack::with("$PROBE write-descriptor 99 exfil")
        .after(World::listen_on_ports)
        .behind(&["bash", "-c", "exec 99<>/dev/tcp/127.0.0.1/$PORT; exec \"$@\"", "-"])
        .hits(|_, seen| seen.stdout.contains("write-descriptor ok"));
    /// A service behind a socket with a path.
    ux01 => Attack::with("$PROBE unix-connect $OUT/stream.sock").after(World::listen_on_sockets).hits(hears);
    /// Datagrams with an address each.
    ux02 => Attack::with("$PROBE unix-sendmsg $OUT/datagram.sock").after(World::listen_on_sockets).hits(hears);
    ux03 => Attack::with("$PROBE unix-sendto $OUT/datagram.sock").after(World::listen_on_sockets).hits(hears);
    /// The same from a pair of sockets, which a program may have.
    ux03_pair => Attack::with("$PROBE unix-pair-sendto $OUT/datagram.sock").after(World::listen_on_sockets).hits(hears);
    /// An abstract address.
    ux04 => Attack::with("$PROBE unix-connect @$MARKER").after(World::listen_on_sockets).hits(hears);
    /// The same where the network is the host's, and abstract addresses with it.
    ux04_network => Attack::with("$PROBE unix-connect @$MARKER; $PROBE unix-connect $OUT/stream.sock; $PROBE unix-pair-sendto $OUT/datagram.sock")
        .after(World::listen_on_sockets)
        .with_network()
        .hits(hears);
    /// The host's loopback.
    nt01 => Attack::with("$PROBE connect 127.0.0.1:$PORT").after(World::listen_on_ports).hits(hears);
    nt01_udp => Attack::with("$PROBE udp 127.0.0.1:$PORT").after(World::listen_on_ports).hits(hears);
    /// By the shell alone.
    nt03 => Attack::with("bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT'").after(World::listen_on_ports).hits(hears);
    /// AF_VSOCK: the machine around a virtual one.
    nt140 => Attack::with("$PROBE socket 40 1; $PROBE socket 40 2").hits(probe_succeeds).bare(Bare::NotTried);
    /// AF_NETLINK: the kernel's own interfaces.
    nt116 => Attack::with("$PROBE socket 16 3").hits(probe_succeeds);
    /// AF_PACKET: raw frames.
    nt117 => Attack::with("$PROBE socket 17 3").hits(probe_succeeds).bare(Bare::WorksForRoot);
    /// AF_ALG: the kernel's ciphers.
    nt138 => Attack::with("$PROBE socket 38 5").hits(probe_succeeds).bare(Bare::NotTried);
    /// AF_KEY: keys of IPsec.
    nt115 => Attack::with("$PROBE socket 15 3").hits(probe_succeeds).bare(Bare::NotTried);
    /// Any family but the internet's, whatever the network.
    nt_all => Attack::with("for f in $(seq 0 1) $(seq 3 9) $(seq 11 60); do for t in 1 2 3 5; do $PROBE socket $f $t; done; done")
        .with_network()
        .hits(probe_succeeds);
}

for_every_engine! {
    /// A grant that can't be held is refused, and so there is no socket to pass descriptors over.
    ux07 => single_sockets_are_refused;
    /// What was granted works: the host's loopback with the network on.
    nt_full => the_network_works_when_it_is_granted;
    /// A socket of the host's network as a stream would be a way to all of it.
    nt_stream => a_socket_as_a_stream_is_refused;
}

for_each_user! {
    /// Programs that talk to themselves still work without a network.
    nt_own => loopback_and_pairs_work_inside;
}

fn single_sockets_are_refused(user: User, engine: &str) {
    let mut world = World::new(user);
    world.listen_on_sockets();
    let unix_sockets = BTreeSet::from([abs(&world.outside.join("stream.sock"))]);
    let permissions = Permissions { unix_sockets, ..world.permissions() };
    let seen = world.run(&world.request(engine, permissions, "echo started"));
    // Where it can be enforced, a supervisor decides on each connection, and here there is none.
    let refused = match &seen.ended {
        Ended::Refused { what, .. } => what.contains("unix sockets"),
        Ended::NotStarted { why } => why.contains("no supervisor decides on connections"),
        Ended::Exited { .. } | Ended::Signaled { .. } => false,
    };
    assert!(refused, "{seen:?}");
    assert_eq!(seen.stdout, "");
}

fn the_network_works_when_it_is_granted(user: User, engine: &str) {
    let mut world = World::new(user);
    world.listen_on_ports();
    let permissions = Permissions { network: NetworkPolicy::Full, ..world.permissions() };
    let seen = world.run(&world.request(engine, permissions, "$PROBE connect 127.0.0.1:$PORT"));
    assert_eq!(seen.stdout, "connect ok \n", "{seen:?}");
    assert!(world.heard());
}

fn loopback_and_pairs_work_inside(user: User, engine: &str) {
    let world = World::new(user);
    let script = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>&1 | grep -q refused && echo refused; $PROBE pairs";
    let seen = world.run(&world.request(engine, world.permissions(), script));
    assert_eq!(seen.stdout, "refused\nstream ok 0\npacket ok 0\n", "{seen:?}");
}

fn a_socket_as_a_stream_is_refused(user: User, engine: &str) {
    let wrapper = ["bash", "-c", "exec \"$@\" <>/dev/udp/127.0.0.1/9", "-"];
    for (engine, is_held) in [(NONE, false), (engine, true)] {
        let mut world = World::new(user);
        world.listen_on_ports();
        let request = world.request(engine, world.permissions(), "$PROBE udp-on-input 127.0.0.1:$PORT");
        let mut caller = world.caller_behind(&wrapper, &request);
        let seen = world.finish(&request, &mut caller);
        let is_refused = matches!(&seen.ended, Ended::NotStarted { why } if why.contains("socket"));
        assert_eq!(is_refused, is_held, "{engine}: {seen:?}");
        assert_eq!(world.heard(), !is_held, "{engine}: {seen:?}");
    }
}
