//! The sockets in a command's network, for the supervisor.

use std::collections::BTreeSet;
use std::io;

use rustix::net::RecvFlags;
use rustix::process::Pid;
use stockade_sandboxing::SpawnError;

use super::{Launcher, Setup, StartFailure, StepLists, frame, lost};
use crate::launch::child::Report;
use crate::plan::step::Step;
use crate::supervisor::{Sockets, Tap};
use crate::wire;

impl Launcher {
    /// Creates sockets in the network of a process, from outside: they need privileges there that nothing inside has.
    /// No new namespace is created. The launcher that has created them has to live as long as they do.
    pub(crate) fn sockets_of(process: Pid, sockets: Vec<Step>) -> Result<(Sockets, Self), SpawnError> {
        let path = format!("/proc/{}/ns/net", process.as_raw_nonzero()).parse();
        let path = path.map_err(|error: stockade_protocol::Invalid| no_sockets(io::Error::other(error.to_string())))?;
        let (mut steps, covers) = (vec![Step::EnterNetwork { path }], BTreeSet::new());
        steps.extend(sockets);
        let setup = Setup {
            steps: &steps,
            parking: None,
            placeholders: &[],
            kept_names: None,
            covers: &covers,
            group: None,
            masks: None,
        };
        // It has its own steps.
        let lists = StepLists { setup: &steps, ..StepLists::default() };
        let launcher = Self::start(&setup).map_err(|failure| failure.told(&lists))?;
        // It has nothing to park, and so reports an error if it failed before.
        launcher.send(wire::FRAME_PARK, &[], &[]).map_err(no_sockets)?;
        let sockets = launcher.passed_sockets(&steps).map_err(|failure| failure.told(&lists))?;
        Ok((sockets, launcher))
    }

    /// The sockets that this launcher creates, which are its first reports.
    pub(crate) fn passed_sockets(&self, steps: &[Step]) -> Result<Sockets, StartFailure> {
        let control = self.control().ok_or_else(|| no_sockets(io::ErrorKind::NotConnected.into()))?;
        let next = |wanted: fn(&Report) -> bool| {
            let (report, file) =
                frame::receive(control, RecvFlags::empty()).map_err(|errno| no_sockets(errno.into()))?;
            match (Report::read(report), file) {
                (report, Some(file)) if wanted(&report) => Ok(Some(file)),
                (Report::NoDatagrams, None) => Ok(None),
                (Report::Failed { errno, phase, step }, _) => Err(StartFailure::reported(errno, phase, step)),
                _ => Err(no_sockets(io::ErrorKind::UnexpectedEof.into()).into()),
            }
        };
        let mut sockets = Sockets::default();
        for step in steps {
            if matches!(step, Step::Resolver) {
                sockets.resolver = next(|report| matches!(report, Report::Resolver))?;
            } else if matches!(step, Step::Datagrams { .. }) {
                // Both are sent, or neither.
                if let Some(lease) = next(|report| matches!(report, Report::Lease))? {
                    let socket = next(|report| matches!(report, Report::Datagrams))?;
                    sockets.datagrams = socket.map(|socket| Tap { socket, lease });
                }
            }
        }
        Ok(sockets)
    }
}

fn no_sockets(source: io::Error) -> SpawnError {
    lost("making the sockets of its network")(source)
}
