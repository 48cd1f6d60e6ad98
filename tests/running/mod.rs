//! `stockade run` and `stockade explain` as a user runs them, in a home of their own.

/// A person who answers the questions of a session.
mod attending;
/// Directories that ignore case.
mod case_blind;
/// What connections leave behind.
mod connections;
/// Credentials, secrets in variables, and registries.
mod credentials;
/// Devices that are granted by name, and all others.
mod devices;
/// Single programs that run with more than their caller.
mod elsewhere;
/// The same from more callers, and many at once.
mod elsewhere_callers;
/// The same at a terminal, and after a person's yes.
mod elsewhere_terminal;
/// The decision without the deed.
mod explaining;
/// What a command may read and write.
mod files;
/// What a yes gives to one program, and to which.
mod given_after_yes;
/// What stays protected in directories that a grant adds.
mod granted_metadata;
/// Names that must not be made.
mod held_names;
/// Denied writes that wait for an answer.
mod holding;
/// A user with a home, a workspace and a directory outside of it.
pub(crate) mod home;
/// Network by host.
mod hosts;
/// Package managers in an empty home, with a person who is asked.
mod installing;
/// The program among others: in a job, in a pipeline, with streams that take nothing.
mod jobs;
/// Links that one run could leave behind for the next.
mod links;
/// What no flag, setting and answer exceeds.
mod maximum;
/// What is said, and that it is so.
mod messages;
/// Connections that are asked for where the network is off.
mod network_questions;
/// Denials as facts.
mod observed;
/// Lines that do not show what they run, and are judged as they run it.
mod opaque_lines;
/// Ordinary commands raise no questions.
mod ordinary;
/// Stockade's own files.
mod own_files;
/// Unix sockets of a command's own.
mod own_sockets;
/// Patches are judged as commands are.
mod patch_agreement;
/// File changes that are shown, asked about and written.
mod patches;
/// Repositories, hooks and settings that a command plants for a push with more.
mod planted_repositories;
/// Named sets of permissions, with real tools.
mod profiles;
/// Rules for the programs that a command starts.
mod programs;
/// A program that pushes with what a rule gives it.
mod pushing;
/// The recorded session in the README.
mod recording;
/// The flags that a denial names.
mod remedies;
/// What git may do in the workspace's repository, and what it may not.
mod repositories;
/// How risky a request looks to a program.
mod risk;
/// What a rule means for the sandbox.
mod rules;
mod rules_outside;
/// Clients of sessions that are stopped, and that stop.
mod session_clients;
/// Ends of sessions and of their commands, as callers are told of them.
mod session_ends;
/// Sessions that outlive a command.
mod sessions;
/// Who says what holds: flags, files, profiles, rules, trust.
mod settings;
/// A shell line, and the name that stands for a shell.
mod shells;
/// Signals, and what is left when Stockade is killed.
mod signals;
/// Scripts of skills.
mod skills;
/// What keeps a command from being started.
mod starting;
/// Input, output, exit codes, limits, the environment.
mod streams;
/// The program in a pseudo-terminal.
mod terminal;
/// What is on record afterwards.
mod trail;
