#![doc = include_str!("../README.md")]

mod config_file;
mod device;
mod error;
mod form;
mod homes;
mod layer;
mod limits;
mod lists;
mod load;
mod loss;
mod maximum;
mod origin;
mod own_files;
mod profile;
mod project;
mod review;
mod schema;
mod servers;
mod settings;
mod source;
mod store;
mod suggest;
mod trust;
mod values;
mod watched;
mod written;

pub use device::{DevicePath, NoDevice};
pub use error::ConfigError;
pub use form::{AllowedCommands, AskWord, AuditDurability, EngineName, NetworkMode, SandboxMode};
pub use homes::{user_variable, variable_of_user};
pub use layer::{Changes, Layer};
pub use load::{ConfigLoader, Loaded, News, SYSTEM_DIRECTORY, check_config};
pub use loss::LossName;
pub use maximum::Maximum;
pub use origin::Origin;
pub use own_files::{HELD_NAMES, socket_directory};
pub use profile::{
    LineGrant, NamedBy, NoValue, PROFILE_SCHEMA_NAME, PermissionProfile, PermissionProfiles, ProfileContext,
    ProfileGrant, ProfileLine, ProfileOrigin, ProfileUse, Template, profile_schema, proposed_profile, save_profile,
};
pub use project::ProjectRules;
pub use review::{ProjectFileKind, ProjectReview, ReviewedSetting};
pub use schema::{CONFIG_SCHEMA_NAME, config_schema};
pub use settings::{Hook, Settings};
pub use trust::{FileDifference, ProjectTrust, TrustStore, TrustedProject};
pub use values::{parse_duration, parse_host};
pub use watched::Watched;
