//! Destinations, sockets and services.

use stockade_protocol::{Decision, HostRule, HostRules, HttpMethods, NetworkPolicy, NetworkProtocol, Permissions};
use stockade_sandbox_macos::{Loss, ProxyPorts, Seatbelt};
use stockade_sandboxing::Backend as _;

use crate::evaluator::Object;
use crate::world::{Asked, World, command, path};

fn hosts() -> Permissions {
    let rule = HostRule { host: "example.com".parse().unwrap(), protocol: None, port: None, decision: Decision::Allow };
    let network = NetworkPolicy::Hosts(HostRules { rules: vec![rule], methods: HttpMethods::Any });
    Permissions { network, ..Permissions::default() }
}

fn through(seatbelt: &Seatbelt, port: Option<u16>, permissions: &Permissions) -> Asked {
    let proxy = port.map(|port| ProxyPorts::new([port]));
    Asked::of(&seatbelt.plan_on(&command(), permissions, proxy.as_ref(), &World::default()).unwrap())
}

const DESTINATIONS: &[(&str, u16)] =
    &[("93.184.215.14", 443), ("10.0.0.1", 80), ("127.0.0.1", 3128), ("127.0.0.1", 3129), ("::1", 3128), ("::1", 22)];

#[test]
fn off_and_full_are_what_the_oracle_says() {
    for network in [NetworkPolicy::Off, NetworkPolicy::Full] {
        let permissions = Permissions { network, ..Permissions::default() };
        let asked = Asked::new(&permissions);
        for (host, port) in DESTINATIONS {
            let decision = permissions.connect(&host.parse().unwrap(), NetworkProtocol::Tcp, *port);
            let object = Object::address(host, *port);
            assert_eq!(asked.allows("network-outbound", &object), decision == Decision::Allow, "{host}:{port}");
            assert_eq!(asked.allows("network-bind", &object), decision == Decision::Allow, "{host}:{port}");
        }
    }
}

#[test]
fn by_host_only_the_proxy_is_reached() {
    let asked = through(&Seatbelt::new(), Some(3128), &hosts());
    for (host, port) in DESTINATIONS {
        let is_proxy = ["127.0.0.1", "::1"].contains(host) && *port == 3128;
        assert_eq!(asked.allows("network-outbound", &Object::address(host, *port)), is_proxy, "{host}:{port}");
        assert!(!asked.allows("network-bind", &Object::address(host, *port)));
    }
    assert!(!asked.allows("network-outbound", &Object::file("/private/var/run/mDNSResponder")), "names leak nowhere");
}

#[test]
fn without_a_proxy_or_with_another_ones_settings_there_is_no_plan() {
    let plan = |port: Option<u16>, value: &str| {
        let mut command = command();
        command.environment.insert("https_proxy".into(), value.into());
        let proxy = port.map(|port| ProxyPorts::new([port]));
        let plan = Seatbelt::new().plan_on(&command, &hosts(), proxy.as_ref(), &World::default());
        plan.map(drop).map_err(|error| error.to_string())
    };
    assert!(plan(None, "").unwrap_err().contains("no proxy"));
    assert!(plan(Some(0), "").unwrap_err().contains("no proxy"));
    assert!(plan(Some(3128), "http://127.0.0.1:8080").unwrap_err().contains("port 8080"));
    assert!(plan(Some(3128), "http://proxy.test:3128").unwrap_err().contains("https_proxy"));
    assert!(plan(Some(3128), "nonsense").unwrap_err().contains("https_proxy"));
    plan(Some(3128), "http://127.0.0.1:3128").unwrap();
}

/// As the orchestrator does it: the address of a proxy, on this machine alone.
#[test]
fn the_contract_leads_through_a_port_of_this_machine() {
    let plan = |address: &str| {
        let seatbelt = Seatbelt::new();
        let plan = seatbelt.proxied().unwrap().compile_through(address.parse().unwrap(), &command(), &hosts());
        plan.map(|plan| plan.to_string()).map_err(|error| error.to_string())
    };
    assert!(plan("127.0.0.1:3128").unwrap().contains("(remote ip \"localhost:3128\")"));
    assert!(plan("10.0.0.1:3128").unwrap_err().contains("no proxy"));
    let bare = Seatbelt::new().compile(&command(), &hosts()).map(drop).unwrap_err();
    assert!(bare.to_string().contains("no proxy"), "{bare}");
}

#[test]
fn sockets_are_reached_by_their_very_path() {
    for network in [NetworkPolicy::Off, NetworkPolicy::Full] {
        let permissions = Permissions { unix_sockets: [path("/run/a.sock")].into(), network, ..Permissions::default() };
        let asked = Asked::new(&permissions);
        let connects = |path| asked.allows("network-outbound", &Object::file(path));
        assert!(connects("/run/a.sock"));
        for other in ["/run/b.sock", "/run/a.sock/x", "/run", "/private/var/run/docker.sock"] {
            assert!(!connects(other), "{other}");
        }
        assert!(!asked.allows("network-bind", &Object::file("/run/a.sock")));
        assert!(!asked.reads("/run/a.sock"), "to connect is not to read");
    }
}

#[test]
fn services_that_lead_out_are_never_reached() {
    let full = Permissions { network: NetworkPolicy::Full, ..crate::world::files(&["/ write"]) };
    let asked = Asked::new(&full);
    for name in [
        "com.apple.SecurityServer",
        "com.apple.securityd.xpc",
        "com.apple.coreservices.launchservicesd",
        "com.apple.lsd.open",
        "com.apple.pasteboard.1",
        "com.apple.tccd",
        "com.apple.windowserver.active",
        "com.apple.coreservices.appleevents",
        "com.apple.xpc.launchd.domain.user",
        "dev.stockade.run.7.other",
    ] {
        assert!(!asked.allows("mach-lookup", &Object::name(name)), "{name}");
    }
    for name in ["com.apple.system.opendirectoryd.libinfo", "com.apple.trustd.agent", "dev.stockade.run.7"] {
        assert!(asked.allows("mach-lookup", &Object::name(name)), "{name}");
    }
}

#[test]
fn certificates_are_judged_by_the_system_only_where_that_reaches_no_further() {
    let judges = |asked: &Asked| asked.allows("mach-lookup", &Object::name("com.apple.trustd.agent"));
    let accepting = || Seatbelt::new().accepting(Loss::CertificateFetches);
    assert!(!judges(&Asked::new(&Permissions::default())));
    assert!(!judges(&through(&Seatbelt::new(), Some(3128), &hosts())));
    assert!(judges(&through(&accepting(), Some(3128), &hosts())));
    let off = through(&accepting(), None, &Permissions::default());
    assert!(!judges(&off), "without a network there is nothing to judge");
}
