//! Attacks, each of which works without a sandbox and has no effect in one.
//!
//! An attack is a script, and a look at the host that tells whether it had its effect. It runs three
//! times over: bare, where it has to work, since an attack that can't succeed proves nothing; then
//! in each engine's sandbox, where it must not. The names are those of the list of known attacks.

/// Writes and changes outside what was granted.
mod files;
/// Keys, shared memory, sockets, the network.
mod ipc;
/// `.git` and the other names that let a command take over later.
mod metadata;
/// Namespaces, capabilities, terminals, loaders.
mod privileges;
/// Other processes, environments, limits.
mod processes;
/// Reads of what was denied.
mod reads;
/// System calls that the filter refuses.
mod syscalls;

use std::path::Path;
use std::process::Stdio;

use stockade_protocol::{LayerStatus, NetworkPolicy, Permissions};

use crate::engines::{Engine, NONE, View};
use crate::request::{Ended, Request};
use crate::world::{Seen, User, World, snapshot};

/// Whether the host shows that an attack worked.
type Effect = Box<dyn Fn(&mut World, &Seen) -> bool>;
/// A change to what the caller is asked.
type Adjustment = Box<dyn Fn(&World, &mut Request)>;

/// One attack. Built like a sentence: `Attack::with("echo x > $OUT/t").hits(outside_changed)`.
struct Attack {
    script: String,
    effect: Effect,
    setup: Box<dyn Fn(&mut World)>,
    permissions: Box<dyn Fn(&World) -> Permissions>,
    adjust: Adjustment,
    during: Option<fn(&World)>,
    wrapper: Vec<&'static str>,
    bare: Bare,
    limit: Limit,
}

/// Whether the attack works without a sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bare {
    Works,
    WorksForRoot,
    /// It would harm the host, or there is nothing to attack outside a sandbox.
    NotTried,
}

/// Whether the attack has its effect in a sandbox all the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    Held,
    /// The kernel can't prevent it. SECURITY.md says so, and it has to stay true.
    NotPromised,
}

impl Attack {
    fn with(script: &str) -> Self {
        Self {
            script: script.to_owned(),
            effect: Box::new(|_, _| panic!("an attack says what it hits")),
            setup: Box::new(|_| {}),
            permissions: Box::new(World::permissions),
            adjust: Box::new(|_, _| {}),
            during: None,
            wrapper: Vec::new(),
            bare: Bare::Works,
            limit: Limit::Held,
        }
    }

    fn hits(mut self, effect: impl Fn(&mut World, &Seen) -> bool + 'static) -> Self {
        self.effect = Box::new(effect);
        self
    }

    fn after(mut self, setup: impl Fn(&mut World) + 'static) -> Self {
        self.setup = Box::new(setup);
        self
    }

    fn allowed(mut self, permissions: impl Fn(&World) -> Permissions + 'static) -> Self {
        self.permissions = Box::new(permissions);
        self
    }

    /// With the host's network.
    fn with_network(self) -> Self {
        self.allowed(|world| Permissions { network: NetworkPolicy::Full, ..world.permissions() })
    }

    fn asked(mut self, adjust: impl Fn(&World, &mut Request) + 'static) -> Self {
        self.adjust = Box::new(adjust);
        self
    }

    /// What the host does once the script has made `$WS/ready`; then it makes `$WS/done`.
    fn while_host(mut self, during: fn(&World)) -> Self {
        self.during = Some(during);
        self
    }

    /// The caller itself is started by another program.
    fn behind(mut self, wrapper: &[&'static str]) -> Self {
        self.wrapper = wrapper.to_vec();
        self
    }

    fn bare(mut self, bare: Bare) -> Self {
        self.bare = bare;
        self
    }

    fn not_promised(mut self) -> Self {
        self.limit = Limit::NotPromised;
        self
    }

    /// The engine must not even start it.
    fn is_refused(&self, id: &str, user: User, engine: &Engine) {
        let mut world = World::new(user);
        (self.setup)(&mut world);
        let request = world.request(engine.name, (self.permissions)(&world), "echo started\n");
        let running = world.caller(&request).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let seen = world.seen(&request, &running.wait_with_output().unwrap());
        let Ended::Refused { why, .. } = &seen.ended else {
            panic!("{id} is not refused by {}: {seen:?}", engine.name)
        };
        assert!(engine.refuses.iter().any(|words| why.contains(words)), "{id}: {why}");
    }

    /// Runs the attack in a world of its own and says whether it had its effect.
    fn has_effect(&self, id: &str, user: User, engine: Option<&Engine>) -> bool {
        let name = engine.map_or(NONE, |engine| engine.accepting);
        let mut world = World::new(user);
        (self.setup)(&mut world);
        let script = format!("echo started\n{}\n", self.script);
        let mut request = world.request(name, (self.permissions)(&world), &script);
        (self.adjust)(&world, &mut request);
        let mut caller = match self.wrapper.is_empty() {
            true => world.caller(&request),
            false => world.caller_behind(&self.wrapper, &request),
        };
        if let Some(screen) = &world.ears.terminal {
            caller.stdin(Stdio::from(screen.inside.try_clone().unwrap()));
        }
        let running = caller.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some(during) = self.during {
            let ready =
                crate::world::wait_for(std::time::Duration::from_secs(10), || world.workspace.join("ready").exists());
            assert!(ready, "{id}: the script never said that it is ready");
            during(&world);
            world.write(&world.workspace.join("done"), "");
        }
        let seen = world.seen(&request, &running.wait_with_output().unwrap());
        // A command that did not even start would pass every test.
        assert!(seen.stdout.starts_with("started\n"), "{id} did not start with {name}: {seen:?}");
        if let Some(engine) = engine {
            every_layer_holds(id, user, engine, &request, &seen);
        }
        let effect = (self.effect)(&mut world, &seen);
        println!("{id} {user:?} {name}: effect {effect}, {seen:?}");
        effect
    }
}

/// The report names every layer, and each holds, but for the network that was granted and for what an
/// engine without namespaces does not have.
fn every_layer_holds(id: &str, user: User, engine: &Engine, request: &Request, seen: &Seen) {
    let (Ended::Exited { layers, .. } | Ended::Signaled { layers, .. }) = &seen.ended else {
        panic!("{id}: {seen:?}");
    };
    for needed in ["landlock", "seccomp", "no_new_privileges", "no_capabilities", "process_tree"] {
        assert!(layers.iter().any(|layer| layer.layer == needed), "{id}: {layers:?}");
    }
    for layer in layers {
        let name = layer.layer.as_str();
        let granted = request.permissions.network == NetworkPolicy::Full && name == "net_namespace";
        let is_shared = name.ends_with("_namespace") || ["processes", "protected_metadata"].contains(&name);
        let shared = engine.view == View::Host && is_shared;
        // Only root can give it up, and an attack may have made itself root of a namespace.
        if engine.view == View::Host && name == "no_bounding_set" && !user.is_root() {
            continue;
        }
        // What is not there must not be reported either.
        let holds = layer.status == LayerStatus::FullyEnforced;
        assert_eq!(holds, !granted && !shared, "{id}: {layer:?}");
    }
}

/// Proves one attack for one user.
fn prove(id: &str, user: User, attack: &Attack) {
    let tried = match attack.bare {
        Bare::Works => true,
        Bare::WorksForRoot => user.is_root(),
        Bare::NotTried => false,
    };
    if tried {
        assert!(attack.has_effect(id, user, None), "{id} has no effect without a sandbox, so it proves nothing");
    }
    for engine in crate::engines::usable() {
        let not_promised = attack.limit == Limit::NotPromised && !engine.also_held.contains(&id);
        let expected = not_promised || engine.does_not_claim(id, user);
        if engine.must_refuse(id) {
            attack.is_refused(id, user, engine);
            continue;
        }
        let effect = attack.has_effect(id, user, Some(engine));
        match (effect, expected) {
            (true, false) => panic!("{id} ESCAPES from {} as {user:?}", engine.name),
            (false, true) => panic!("{id} is held by {}: say so in SECURITY.md and here", engine.name),
            (true, true) | (false, false) => {}
        }
    }
}

/// Each attack as two tests: as the user who runs them, and as an ordinary user.
macro_rules! attacks {
    ($($(#[doc = $about:literal])* $id:ident => $attack:expr;)*) => {
        $($(#[doc = $about])*
        mod $id {
            #[allow(unused_imports, reason = "not every attack uses all of them")]
            use super::*;

            #[test]
            fn own_user() {
                crate::escapes::prove(stringify!($id), crate::world::User::Own, &$attack);
            }

            #[test]
            fn ordinary_user() {
                crate::escapes::prove(stringify!($id), crate::world::User::Ordinary, &$attack);
            }
        })*
    };
}

/// The same for a test that is more than one attack: a function of the user and the engine, for the
/// engines that give a command a view of its own.
macro_rules! for_each_user {
    ($($(#[doc = $about:literal])* $id:ident => $test:expr;)*) => {
        $(crate::escapes::for_engines!(crate::engines::with_own_view(), $(#[doc = $about])* $id => $test);)*
    };
}

/// The same for every engine.
macro_rules! for_every_engine {
    ($($(#[doc = $about:literal])* $id:ident => $test:expr;)*) => {
        $(crate::escapes::for_engines!(crate::engines::usable(), $(#[doc = $about])* $id => $test);)*
    };
}

macro_rules! for_engines {
    ($engines:expr, $(#[doc = $about:literal])* $id:ident => $test:expr) => {
        $(#[doc = $about])*
        mod $id {
            #[allow(unused_imports, reason = "not every test uses all of them")]
            use super::*;

            #[test]
            fn own_user() {
                $engines.for_each(|engine| $test(crate::world::User::Own, engine.accepting));
            }

            #[test]
            fn ordinary_user() {
                $engines.for_each(|engine| $test(crate::world::User::Ordinary, engine.accepting));
            }
        }
    };
}

pub(crate) use {attacks, for_each_user, for_engines, for_every_engine};

/// Whether anything outside the workspace is not as it was.
fn outside_changed(world: &mut World, _: &Seen) -> bool {
    let now = snapshot(&world.outside);
    let text = std::fs::read_to_string(world.outside.join("t")).ok();
    let mode = now.get(&world.outside.join("t")).cloned().unwrap_or_default();
    text.as_deref() != Some("original\n") || !mode.starts_with("100644 1 ") || now.len() != 2
}

/// Whether a file exists in the workspace.
fn exists(name: &'static str) -> impl Fn(&mut World, &Seen) -> bool {
    move |world, _| world.workspace.join(name).symlink_metadata().is_ok()
}

/// Whether a file in the workspace holds something else than this.
fn differs(name: &'static str, text: &'static str) -> impl Fn(&mut World, &Seen) -> bool {
    move |world, _| std::fs::read_to_string(world.workspace.join(name)).ok().as_deref() != Some(text)
}

/// Whether the command printed a text.
fn prints(text: &'static str) -> impl Fn(&mut World, &Seen) -> bool {
    move |_, seen| seen.stdout.contains(text)
}

/// Whether one of a probe's attempts worked.
fn probe_succeeds(_: &mut World, seen: &Seen) -> bool {
    assert!(seen.stdout.contains(" error ") || seen.stdout.contains(" ok "), "the probe did not run: {seen:?}");
    seen.stdout.contains(" ok ") || seen.stdout.contains(" ok\n")
}

fn hears(world: &mut World, _: &Seen) -> bool {
    world.heard()
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
