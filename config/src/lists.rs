//! Merges the lists of several sources and tracks the origin of each entry.

use std::collections::BTreeMap;
use std::fmt;

use stockade_protocol::{AbsPath, FileTarget, HostRule};

use crate::device::DevicePath;
use crate::layer::Changes;
use crate::loss::LossName;
use crate::origin::Origin;

/// The lists of one source.
pub(crate) struct Lists {
    pub(crate) writable: Option<Vec<AbsPath>>,
    pub(crate) readable: Option<Vec<AbsPath>>,
    pub(crate) deny_read: Vec<FileTarget>,
    pub(crate) allow_hosts: Option<Vec<HostRule>>,
    pub(crate) deny_hosts: Vec<HostRule>,
    pub(crate) sockets: Option<Vec<AbsPath>>,
    pub(crate) devices: Option<Vec<DevicePath>>,
    pub(crate) losses: Option<Vec<LossName>>,
    pub(crate) with: Option<Vec<String>>,
}

/// Merges a granting list: that of the nearest file, plus the flags'.
pub(crate) fn grant<T: PartialEq>(
    key: &str,
    own: &mut Vec<T>,
    new: Vec<T>,
    origins: &mut BTreeMap<String, Origin>,
    origin: &Origin,
) {
    if *origin != Origin::Flag {
        own.clear();
        origins.retain(|known, _| !known.starts_with(&format!("{key}[")));
    }
    add(key, own, new, origins, origin);
}

/// Merges a denying list: the union over all sources.
pub(crate) fn add<T: PartialEq>(
    key: &str,
    own: &mut Vec<T>,
    new: Vec<T>,
    origins: &mut BTreeMap<String, Origin>,
    origin: &Origin,
) {
    for value in new {
        if !own.contains(&value) {
            origins.insert(format!("{key}[{}]", own.len()), origin.clone());
            own.push(value);
        }
    }
}

/// Applies additions and removals to a list.
pub(crate) fn change<T: PartialEq + fmt::Display>(
    key: &str,
    own: &mut Vec<T>,
    changes: Changes<T>,
    origins: &mut BTreeMap<String, Origin>,
    origin: &Origin,
) {
    for value in &changes.remove {
        origins.insert(format!("{key}.remove.{value}"), origin.clone());
    }
    own.retain(|value| !changes.remove.contains(value));
    for value in changes.add {
        origins.insert(format!("{key}.add.{value}"), origin.clone());
        if !own.contains(&value) {
            own.push(value);
        }
    }
}
