//! Errors of invalid values, which name the value.

use crate::RawText;

/// Input that was refused. Values are in backticks, with control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A path that does not start at the root.
    #[error("path `{path}` is not absolute: start it with `/`, or with a drive or share on Windows")]
    RelativePath {
        /// The path as given.
        path: RawText,
    },
    /// A path with a `..` component.
    #[error("path `{path}` contains `..`, whose meaning depends on symbolic links: give the resolved path")]
    ParentInPath {
        /// The path as given.
        path: RawText,
    },
    /// A path with a NUL byte.
    #[error("path `{path}` contains a NUL byte")]
    NulInPath {
        /// The path as given.
        path: RawText,
    },
    /// An absolute path in place of a relative one to be joined.
    #[error("path `{path}` is absolute, where a path below a directory was expected")]
    AbsoluteTail {
        /// The path as given.
        path: RawText,
    },
    /// A name that Windows would open under another spelling.
    #[error("path `{path}` has the name `{name}`, which Windows reads in more than one way")]
    WindowsName {
        /// The component in question.
        name: RawText,
        /// The path as given.
        path: RawText,
    },
    /// A form of an MCP server that can't be filled in.
    #[error("the form can't be filled in: {}", RawText::from(.why.as_str()))]
    Form {
        /// What is wrong with it.
        why: String,
    },
    /// An invalid glob.
    #[error("glob `{glob}` {why}")]
    Glob {
        /// The glob as given.
        glob: RawText,
        /// What is wrong with it and what to write instead.
        why: &'static str,
    },
    /// A glob in a rule that grants.
    #[error("glob `{glob}` may only be denied (access `none`): grant the directory by its path instead")]
    GlobGrants {
        /// The glob as given.
        glob: RawText,
    },
    /// A writable directory that can't be searched for repositories to protect.
    #[error("`{path}` can't be searched for repositories: {why}")]
    Unsearchable {
        /// The directory.
        path: RawText,
        /// Why, and what to do.
        why: String,
    },
    /// A granted unix socket that is one of Stockade's own.
    #[error(
        "the unix socket `{path}` is in `{own}`, which holds Stockade's own files: no sandboxed command may reach it"
    )]
    OwnSocket {
        /// The canonical path of the socket.
        path: RawText,
        /// The directory.
        own: RawText,
    },
    /// A denied glob whose matches can't all be found.
    #[error("`{path}` can't be searched for what a denied glob matches: {why}")]
    GlobUnsearchable {
        /// The directory.
        path: RawText,
        /// Why, and what to do.
        why: String,
    },
    /// A grant through a symbolic link that a command can change.
    #[error(
        "path `{path}` leads through the link `{link}`, which a command may have put there: name the path it leads to"
    )]
    WritableLink {
        /// The path as given.
        path: RawText,
        /// The link.
        link: RawText,
    },
    /// `..` after a symbolic link, in a path that grants or denies.
    #[error("path `{path}` has `..` behind the link `{link}`, which a command may lead elsewhere: write `{real}`")]
    ParentOfLink {
        /// The path as given.
        path: RawText,
        /// The link.
        link: RawText,
        /// The current target of the path.
        real: RawText,
    },
    /// A command line without words.
    #[error("a command needs at least one word: the program")]
    EmptyArgv,
    /// A command line whose program is the empty string.
    #[error("the program of a command is an empty string")]
    EmptyProgram,
    /// An argument with a NUL byte, which can't be passed to a process.
    #[error("argument {index} contains a NUL byte")]
    NulInArgv {
        /// Its index; the program is 0.
        index: usize,
    },
    /// A host name or address that has no normal form.
    #[error("host `{host}` {why}")]
    Host {
        /// The host as given.
        host: RawText,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An identifier that is empty, too long, or has characters that would not survive a log line.
    #[error("{kind} `{id}` must be 1 to 128 letters, digits or any of `-_.:/`")]
    Id {
        /// The type's name.
        kind: &'static str,
        /// The identifier as given.
        id: RawText,
    },
    /// An invalid name of an environment variable.
    #[error("environment variable `{name}` must be non-empty, without `=` and NUL")]
    VariableName {
        /// The name as given.
        name: RawText,
    },
    /// A file mode creation mask with bits other than permissions.
    #[error("umask `{mask:o}` must be at most `777` (octal)")]
    Umask {
        /// The mask as given.
        mask: u16,
    },
    /// A hash that is not 64 lower-case hexadecimal digits.
    #[error("hash `{hash}` must be 64 lower-case hexadecimal digits")]
    Hash {
        /// The hash as given.
        hash: RawText,
    },
}
