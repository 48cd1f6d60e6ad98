//! What listens on the host: sockets and a pipe that belong to the test. If any of them hears
//! something, a command has reached out of its sandbox.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use stockade_tests::screen::Screen;

use crate::world::{World, wait_for};

#[derive(Default)]
pub(crate) struct Ears {
    pipe: Option<File>,
    streams: Vec<UnixListener>,
    datagrams: Option<UnixDatagram>,
    tcp: Option<TcpListener>,
    udp: Option<UdpSocket>,
    pub(crate) terminal: Option<Screen>,
}

impl World {
    /// A FIFO outside the workspace that a process of the host reads.
    pub(crate) fn listen_on_pipe(&mut self) {
        let path = self.outside.join("fifo");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        self.own(&path);
        // Open for both, so that it is never at its end.
        let file = rustix::fs::open(&path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).unwrap();
        self.ears.pipe = Some(File::from(file));
    }

    /// Sockets outside the workspace: `stream.sock`, `datagram.sock`, and an abstract one.
    pub(crate) fn listen_on_sockets(&mut self) {
        let stream = self.outside.join("stream.sock");
        let datagram = self.outside.join("datagram.sock");
        let name = SocketAddr::from_abstract_name(&self.marker).unwrap();
        self.ears.streams = vec![UnixListener::bind(&stream).unwrap(), UnixListener::bind_addr(&name).unwrap()];
        self.ears.datagrams = Some(UnixDatagram::bind(&datagram).unwrap());
        for path in [stream, datagram] {
            self.own(&path);
        }
        self.ears.streams.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        self.ears.datagrams.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    }

    /// Ports on the host's loopback, given to scripts as `PORT`.
    pub(crate) fn listen_on_ports(&mut self) {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        self.variables.push((String::from("PORT"), tcp.local_addr().unwrap().port().to_string()));
        (self.ears.tcp, self.ears.udp) = (Some(tcp), Some(udp));
    }

    /// A terminal whose other side the test holds.
    pub(crate) fn open_terminal(&mut self) {
        let screen = Screen::open();
        self.own(&screen.name);
        self.ears.terminal = Some(screen);
    }

    /// Whether anything of the host was reached: something to hear within a moment.
    pub(crate) fn heard(&mut self) -> bool {
        let ears = &mut self.ears;
        wait_for(Duration::from_millis(100), || {
            let mut bytes = [0; 64];
            let some = |result: std::io::Result<usize>| match result {
                Ok(count) => count > 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                Err(error) => panic!("a test's own socket fails: {error}"),
            };
            ears.pipe.as_mut().is_some_and(|pipe| some(pipe.read(&mut bytes)))
                || ears.streams.iter().any(|socket| some(socket.accept().map(|_| 1)))
                || ears.datagrams.as_ref().is_some_and(|socket| some(socket.recv(&mut bytes)))
                || ears.tcp.as_ref().is_some_and(|socket| some(socket.accept().map(|_| 1)))
                || ears.udp.as_ref().is_some_and(|socket| some(socket.recv(&mut bytes)))
                || ears.terminal.as_ref().is_some_and(|screen| rustix::io::ioctl_fionread(&screen.inside).unwrap() > 0)
        })
    }
}
