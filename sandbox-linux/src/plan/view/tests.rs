//! Rules whose paths open under other spellings.

use std::path::PathBuf;

use stockade_protocol::{Glob, Invalid};
use stockade_sandboxing::{FakeHost, Found, rules};

use super::*;

/// A host where the names in some directories open in upper and lower case.
struct CaseBlind(FakeHost, &'static [&'static str]);

impl HostFiles for CaseBlind {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        self.0.kind(path)
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        self.0.canonical(path)
    }

    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid> {
        self.0.matches(globs)
    }

    fn has_other_names(&self, path: &AbsPath) -> bool {
        self.0.has_other_names(path)
    }

    fn has_other_spellings(&self, path: &AbsPath) -> bool {
        let has_letter = path.components().last().is_some_and(|name| name.iter().any(u8::is_ascii_alphabetic));
        has_letter && path.parent().is_some_and(|parent| self.1.contains(&parent.to_string().as_str()))
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        self.0.link_target(path)
    }
}

/// The name of the rule's file, of a directory above it, and of the granted directory itself count.
#[test]
fn every_name_that_leads_past_a_rule_is_checked() {
    let files = FakeHost::new(&["/dev/null", "/share/w/Keys/2024", "/share/w/env", "/share/w/old/"]);
    let host = |blind| CaseBlind(files.clone(), blind);
    for (blind, lines, is_refused) in [
        (&["/share/w"][..], &["/ read", "/share/w/env none"][..], true),
        (&["/share/w"], &["/ read", "/share/w/Keys/2024 none"], true),
        (&["/share/w/Keys"], &["/ read", "/share/w/Keys/2024 none"], false),
        (&["/share"], &["/ read", "/share/w write", "/share/w/Keys/2024 none"], true),
        // Another spelling of the workspace is read-only, too.
        (&["/share"], &["/ read", "/share/w write", "/share/w/env read"], false),
        (&["/share"], &["/share/w read", "/share/w/env none"], false),
        // A name that is missing, in a directory that exists.
        (&["/share/w"], &["/ read", "/share/w write", "/share/w/Keys/.git read"], true),
        (&["/share/w"], &["/ read", "/share/w write", "/share/w/.git read"], false),
        (&["/share/w"], &["/ read", "/share/w write", "/share/w/old write"], false),
        (&[], &["/ read", "/share/w write", "/share/w/env none", "/share/w/Keys/2024 none"], false),
    ] {
        let compiled = compile(&rules(lines), &host(blind), &[]);
        let refused = compiled.as_ref().err().map(ToString::to_string);
        assert_eq!(refused.is_some(), is_refused, "{blind:?} {lines:?}: {refused:?}");
        assert!(refused.is_none_or(|refused| refused.contains(IGNORES_CASE)));
    }
}
