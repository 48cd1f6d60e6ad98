//! The paths that determine the settings, so that a session can detect when to reload them.

use std::path::PathBuf;

use stockade_protocol::OWN_PATHS;

use crate::ConfigLoader;
use crate::load::MAXIMUM;
use crate::project::{CONFIG, DIRECTORY};
use crate::trust::STORE;

/// A path that was read, or looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The content of a file.
    File(PathBuf),
    /// The names in a directory tree and the targets of its links; no contents.
    Names(PathBuf),
    /// Every file in a directory and below it.
    Tree(PathBuf),
}

impl ConfigLoader {
    /// Every path that [`load`](Self::load) reads. While none of them changes, neither do the settings.
    pub fn watched(&self) -> Vec<Watched> {
        let mut watched = Vec::new();
        if let Some(directory) = &self.system {
            watched.extend([CONFIG, MAXIMUM].map(|name| Watched::File(directory.join(name))));
        }
        watched.extend(self.user.iter().map(|directory| Watched::File(directory.join(CONFIG))));
        let owners = [&self.system, &self.user].into_iter().flatten();
        watched.extend(owners.map(|directory| Watched::Tree(directory.join(crate::profile::DIRECTORY))));
        watched.extend(self.state.iter().map(|directory| Watched::File(directory.join(STORE))));
        watched.extend(self.project.iter().map(|root| Watched::Tree(root.join(DIRECTORY))));
        watched.extend([&self.system, &self.user, &self.state].into_iter().flatten().cloned().map(Watched::Names));
        let homes = self.homes();
        watched.extend(homes.iter().flat_map(|home| OWN_PATHS.iter().map(|own| Watched::Names(home.join(own)))));
        watched
    }
}
