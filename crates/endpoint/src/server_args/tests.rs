//! Which login and server follow from options and variables.

use std::collections::BTreeMap;

use super::*;

fn caller(args: &ServerArgs, variables: &[(&str, &str)]) -> Result<Caller> {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    args.caller(&|name| variables.get(name).map(|text| (*text).to_owned()))
}

fn basic(user: &str, password: &str) -> Caller {
    Caller::Basic { user: user.to_owned(), password: password.into() }
}

#[test]
fn without_keystone_a_user_asks() {
    let nobody = ServerArgs::default();
    assert_eq!(caller(&nobody, &[]).unwrap(), basic("admin", ""));
    let variables = [("GNOCCHI_USER", "me"), ("GNUDI_PASSWORD", "other"), ("GNOCCHI_PASSWORD", "mine")];
    assert_eq!(caller(&nobody, &variables).unwrap(), basic("me", "mine"));
    let args = ServerArgs { user: Some("you".to_owned()), ..ServerArgs::default() };
    let variables =
        [("OS_PASSWORD", "keystone's"), ("OS_AUTH_TYPE", "password"), ("GNUDI_PASSWORD", "yours")];
    assert_eq!(caller(&args, &variables).unwrap(), basic("you", "yours"));
    let asserted =
        [("OS_AUTH_TYPE", "gnocchi-noauth"), ("GNOCCHI_USER_ID", "u"), ("GNOCCHI_PROJECT_ID", "p")];
    let roles = "admin".to_owned();
    let identity = AssertedIdentity { user_id: "u".to_owned(), project_id: "p".to_owned(), roles };
    assert_eq!(caller(&nobody, &asserted).unwrap(), Caller::Asserted(identity));
    assert!(caller(&nobody, &asserted[..2]).is_err());
}

#[test]
fn the_usual_variables_log_in() {
    let nobody = ServerArgs::default();
    let variables = [
        ("OS_AUTH_URL", "http://k:5000"),
        ("OS_USERNAME", "demo"),
        ("OS_PASSWORD", "secret"),
        ("OS_PROJECT_NAME", "demo project"),
        ("OS_USER_DOMAIN_NAME", "Users"),
        ("OS_PROJECT_DOMAIN_ID", "projects"),
        ("OS_REGION_NAME", ""),
        ("OS_INTERFACE", "internal"),
    ];
    let Caller::Keystone(login) = caller(&nobody, &variables).unwrap() else { panic!("a login") };
    let user = UserRef::Name { name: "demo".to_owned(), domain: DomainRef::Name("Users".to_owned()) };
    let domain = DomainRef::Id("projects".to_owned());
    let scope = Some(Scope::Project(ProjectRef::Name { name: "demo project".to_owned(), domain }));
    let credentials = Credentials::Password { user, password: "secret".into(), scope };
    let (auth_url, interface) = ("http://k:5000".to_owned(), Interface::Internal);
    assert_eq!(login, Login { auth_url, credentials, region_name: None, interface });
    let with_default = [&variables[..], &[("OS_DEFAULT_DOMAIN_ID", "d")]].concat();
    let Caller::Keystone(login) = caller(&nobody, &with_default).unwrap() else { panic!("a login") };
    let Credentials::Password { user, .. } = login.credentials else { panic!("a password") };
    assert_eq!(user, UserRef::Name { name: "demo".to_owned(), domain: DomainRef::Id("d".to_owned()) });
    let of_metric = [&variables[..], &[("OS_METRIC_INTERFACE", "admin")]].concat();
    let Caller::Keystone(login) = caller(&nobody, &of_metric).unwrap() else { panic!("a login") };
    assert_eq!(login.interface, Interface::Admin);
    for (variable, expected) in [
        (("OS_SYSTEM_SCOPE", "all"), Scope::System),
        (("OS_DOMAIN_ID", "d"), Scope::Domain(DomainRef::Id("d".to_owned()))),
        (("OS_TRUST_ID", "t"), Scope::Trust("t".to_owned())),
    ] {
        let mut wider = variables;
        wider[3] = variable;
        let Caller::Keystone(login) = caller(&nobody, &wider).unwrap() else { panic!("a login") };
        let Credentials::Password { scope, .. } = login.credentials else { panic!("a password") };
        assert_eq!(scope, Some(expected));
    }
    let two = [&variables[..], &[("OS_TRUST_ID", "t")]].concat();
    assert!(caller(&nobody, &two).is_err(), "a project and a trust");
    let credential = [
        ("OS_AUTH_TYPE", "v3applicationcredential"),
        ("OS_APPLICATION_CREDENTIAL_SECRET", "s"),
        ("OS_APPLICATION_CREDENTIAL_NAME", "reader"),
    ];
    let by_name = [&variables[..], &credential].concat();
    let Caller::Keystone(login) = caller(&nobody, &by_name).unwrap() else { panic!("a login") };
    let user = UserRef::Name { name: "demo".to_owned(), domain: DomainRef::Name("Users".to_owned()) };
    let (name, secret) = ("reader".to_owned(), "s".into());
    assert_eq!(login.credentials, Credentials::NamedApplicationCredential { name, user, secret });
    assert!(caller(&nobody, &[&variables[..], &credential[..2]].concat()).is_err());
    // The same with a missing or unknown option.
    for missing in 0..3 {
        let mut fewer = variables.to_vec();
        fewer[missing].1 = "";
        fewer.push(("OS_AUTH_TYPE", "password"));
        assert!(caller(&nobody, &fewer).is_err(), "{fewer:?}");
    }
    for odd in [("OS_INTERFACE", "sideways"), ("OS_AUTH_TYPE", "v3kerberos"), ("OS_AUTH_TYPE", "token")] {
        let mut odder = variables.to_vec();
        odder.retain(|(name, _)| *name != odd.0);
        odder.push(odd);
        assert!(caller(&nobody, &odder).is_err(), "{odd:?}");
    }
    let both = [&variables[..], &[("OS_TOKEN", "gAAA")]].concat();
    let Caller::Keystone(login) = caller(&nobody, &both).unwrap() else { panic!("a login") };
    assert!(matches!(login.credentials, Credentials::Password { .. }), "as in Gnocchi's client");
    let token = Caller::Token("gAAA".into());
    assert_eq!(caller(&nobody, &[("OS_TOKEN", "gAAA")]).unwrap(), token);
    let keystone = KeystoneArgs { os_token: Some("gAAA".to_owned()), ..KeystoneArgs::default() };
    let args = ServerArgs { keystone, ..ServerArgs::default() };
    assert_eq!(caller(&args, &[("OS_PASSWORD", "secret")]).unwrap(), token, "an option");
}

#[test]
fn a_token_finds_its_server_in_the_catalogue() {
    let variables = [
        ("OS_AUTH_URL", "http://k:5000"),
        ("OS_TOKEN", "gAAA"),
        ("OS_PROJECT_ID", "p"),
        ("OS_AUTH_TYPE", ""),
    ];
    for kind in ["", "token", "v3token"] {
        let mut variables = variables;
        variables[3].1 = kind;
        let Caller::Keystone(login) = caller(&ServerArgs::default(), &variables).unwrap() else {
            panic!("a login")
        };
        let scope = Some(Scope::Project(ProjectRef::Id("p".to_owned())));
        assert_eq!(login.credentials, Credentials::Token { token: "gAAA".into(), scope });
    }
    let named = ServerArgs { endpoint: Some("http://named".to_owned()), ..ServerArgs::default() };
    let as_it_is = Caller::Token("gAAA".into());
    assert_eq!(caller(&named, &variables).unwrap(), as_it_is);
    assert_eq!(caller(&ServerArgs::default(), &variables[1..]).unwrap(), as_it_is, "there is no catalogue");
    let mut of_admin = variables;
    of_admin[3].1 = "admin_token";
    assert_eq!(caller(&ServerArgs::default(), &of_admin).unwrap(), as_it_is);
}

#[test]
fn a_certificate_may_have_its_key_in_another_file() {
    let args = ServerArgs { os_cert: Some("own.pem".into()), ..ServerArgs::default() };
    let none = |_: &str| None;
    let key = |name: &str| (name == "OS_KEY").then(|| "k.pem".to_owned());
    let of = |key: Option<&str>| {
        Some(ClientIdentity { certificate: "own.pem".into(), key: key.map(PathBuf::from) })
    };
    assert_eq!(args.certificate(&none), of(None));
    assert_eq!(args.certificate(&key), of(Some("k.pem")));
    assert_eq!(ServerArgs::default().certificate(&key), None);
}

#[test]
fn an_option_counts_before_its_variable() {
    let variables = |name: &str| (name == "OS_ENDPOINT_OVERRIDE").then(|| "http://from.catalogue".to_owned());
    assert_eq!(ServerArgs::default().named_among(&variables).as_deref(), Some("http://from.catalogue"));
    let args = ServerArgs { endpoint: Some("http://named".to_owned()), ..ServerArgs::default() };
    assert_eq!(args.named_among(&variables).as_deref(), Some("http://named"));
    // Gnocchi's client takes its own variable last with Keystone.
    let all = |name: &str| name.ends_with("_OVERRIDE").then(|| name.to_owned());
    let own = |name: &str| if name == "GNOCCHI_ENDPOINT" { Some(name.to_owned()) } else { all(name) };
    let with_keystone =
        |name: &str| if name == "OS_PASSWORD" { Some("secret".to_owned()) } else { own(name) };
    let nobody = ServerArgs::default();
    assert_eq!(nobody.named_among(&own).as_deref(), Some("GNOCCHI_ENDPOINT"));
    assert_eq!(nobody.named_among(&with_keystone).as_deref(), Some("OS_METRIC_ENDPOINT_OVERRIDE"));
}
