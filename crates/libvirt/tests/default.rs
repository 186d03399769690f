//! Tests with the one domain of libvirt's built-in test driver. Only the library is needed.

use std::path::Path;

use gnudi_libvirt::{Connection, Libvirt};

fn connect() -> Option<Connection> {
    let libvirt = match Libvirt::load(Path::new(Libvirt::NAME)) {
        Ok(libvirt) => libvirt,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}");
            return None;
        }
    };
    Some(Connection::open(&libvirt, "test:///default").unwrap())
}

#[test]
fn the_test_domain_tells_all_it_has() {
    let Some(connection) = connect() else { return };
    assert!(connection.is_alive());
    let domains = connection.domains().unwrap();
    let domain = domains.iter().find(|domain| domain.name().unwrap() == "test").unwrap();
    let uuid = domain.uuid().unwrap();
    assert_eq!(uuid.len(), 36);
    let info = domain.info().unwrap();
    assert_eq!((info.state, info.vcpus), (1, 2));
    assert!(info.memory_kib > 0 && info.cpu_time_ns > 0);
    assert!(domain.xml().unwrap().starts_with("<domain "));
    assert_eq!(connection.domain(&uuid).unwrap().name().unwrap(), "test");
    let memory = domain.memory_statistics();
    println!("{memory:?}");
    let statistics = domain.statistics().unwrap();
    assert_eq!(statistics.get("state.state"), Some(1), "{statistics:?}");
}

#[test]
fn what_is_not_there_is_an_error_with_a_name() {
    let Some(connection) = connect() else { return };
    let missing = connection.domain("00000000-0000-4000-8000-000000000000").unwrap_err();
    assert!(missing.is_no_domain() && !missing.is_disconnection(), "{missing:?}");
    let domains = connection.domains().unwrap();
    let none = domains[0].metadata("http://openstack.org/xmlns/libvirt/nova/1.1").unwrap_err();
    assert!(none.is_no_metadata(), "{none:?}");
    assert!(domains[0].block_statistics("vdz").is_err());
    assert!(domains[0].block_parameters("v\0z").unwrap_err().to_string().contains("NUL"));
    assert!(domains[0].interface_statistics("tap9").is_err());
}

#[test]
fn a_connection_that_cannot_be_made_is_an_error() {
    let Ok(libvirt) = Libvirt::load(Path::new(Libvirt::NAME)) else { return };
    let error = Connection::open(&libvirt, "test:///no/such/file.xml").unwrap_err().to_string();
    assert!(error.contains("test:///no/such/file.xml"), "{error}");
}
