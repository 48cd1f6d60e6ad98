//! Moves the epoll registrations of a replaced socket.
//!
//! An epoll instance identifies a file together with its descriptor number. The new socket has to be registered under
//! the command's own number, which this program uses for other files. So a thread with its own descriptor table does
//! it: there every number is free.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::caller::{Place, open_process};
use crate::sys::notify::{self, AtNumber};

/// The thread.
#[derive(Debug)]
pub(crate) struct Table {
    jobs: Sender<Job>,
}

struct Job {
    thread: i32,
    place: Place,
    act: Act,
    done: Sender<io::Result<()>>,
}

/// The operation on the epoll instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Remove,
    Add,
}

impl Table {
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, received) = channel();
        let (ready, is_ready) = channel();
        thread::Builder::new().name(String::from("stockade-table")).spawn(move || {
            let own = notify::own_table();
            let works = own.is_ok();
            // The starter waits for this.
            ready.send(own).ok();
            if works {
                work(received);
            }
        })?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self { jobs })
    }

    /// Applies it to a process's descriptor, and waits until it is done.
    pub(crate) fn change(&self, thread: i32, place: &Place, act: Act) -> io::Result<()> {
        let (done, is_done) = channel();
        self.jobs.send(Job { thread, place: place.clone(), act, done }).map_err(io::Error::other)?;
        is_done.recv().map_err(io::Error::other)?
    }
}

fn work(jobs: Receiver<Job>) {
    for job in jobs {
        // The requester waits for this.
        job.done.send(change(&job)).ok();
    }
}

fn change(job: &Job) -> io::Result<()> {
    let number = job.place.number;
    // Other descriptors are moved above the number that has to be free.
    let above = |file: OwnedFd| fcntl_dupfd_cloexec(&file, number.saturating_add(1));
    let process = above(open_process(job.thread)?)?;
    let take = |number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).and_then(above);
    let socket = AtNumber::new(take(number)?.as_fd(), number)?;
    for registration in &job.place.registrations {
        let epoll = take(registration.epoll)?;
        match job.act {
            Act::Remove => socket.forget(epoll.as_fd())?,
            // `EPOLLWAKEUP` needs a privilege that the command does not have.
            Act::Add => socket.watch(epoll.as_fd(), registration.events & !WAKE_UP, registration.data)?,
        }
    }
    Ok(())
}

const WAKE_UP: u32 = 1 << 29;
