//! How a stream of this program's own reaches the command.
//!
//! A command that shares this program's console could put input into it, which the shell behind it reads as if it had
//! been typed; and a process with a console of its own can't use the handles of another one. So no handle of a console
//! is passed on: what the command writes is copied, and it has nothing to read there. A terminal of its own is what
//! `Stdio::controlling_terminal` is for.

/// What the command gets for a stream that it inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The same file or pipe.
    Handle,
    /// A pipe, from which this program copies to its own stream.
    Copied,
    /// Nothing to read.
    Empty,
}

/// Which way a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

impl Route {
    pub(crate) fn of(direction: Direction, is_console: bool) -> Self {
        match (is_console, direction) {
            (false, _) => Self::Handle,
            (true, Direction::Out) => Self::Copied,
            (true, Direction::In) => Self::Empty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_handle_of_a_console_is_passed_on() {
        assert_eq!(Route::of(Direction::In, true), Route::Empty);
        assert_eq!(Route::of(Direction::Out, true), Route::Copied);
        for direction in [Direction::In, Direction::Out] {
            assert_eq!(Route::of(direction, false), Route::Handle);
        }
    }
}
