//! Asks libvirt about the instances of this machine.
//!
//! Its calls block, as long as a hypervisor hangs. They run on a few threads of their own, and callers wait up to a
//! deadline. Calls about one instance are made one after another: a hung instance holds one thread of libvirt's daemon,
//! not one for each meter. A call that hangs gives its permit back, so that other instances are not held up; nothing more
//! is asked about its instance until it returns.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gnudi_libvirt::{BlockInfo, Connection, Domain, Error, Libvirt};
use parking_lot::Mutex;
use serde_json::{Map, Number};
use tokio::{
    sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

use super::{
    inspector::{Disk, DomainDescription, InspectError, InstanceStatistics, Vnic},
    statistics::{running, stopped},
};
use crate::xml::Element;

/// The shared library's name.
pub const LIBRARY: &str = Libvirt::NAME;

/// Maximum concurrent calls, without those that hang. libvirt's daemon works on five requests of a connection at a time.
const CALLS_MAX: usize = 4;
/// With so many hanging calls none is made: the daemon has 20 threads for all its clients, and Nova is one of them.
const HANGING_MAX: usize = 8;
/// `VIR_DOMAIN_SHUTOFF`
const SHUT_OFF: u8 = 5;
/// XML namespaces of Nova's metadata; the newest first.
const NOVA_NAMESPACES: [&str; 2] =
    ["http://openstack.org/xmlns/libvirt/nova/1.1", "http://openstack.org/xmlns/libvirt/nova/1.0"];

#[derive(Clone, Debug)]
pub struct LibvirtOptions {
    /// `qemu:///system`, for example.
    pub uri: String,
    /// The shared library.
    pub library: PathBuf,
    /// Timeout of the calls for one instance.
    pub timeout: Duration,
    /// Whether to report instances that are shut off: state, processors, memory and disk sizes.
    pub report_stopped: bool,
}

/// The default URI for a type of domains.
pub fn uri_of(kind: &str) -> &'static str {
    match kind {
        "parallels" => "parallels:///system",
        "lxc" => "lxc:///",
        _ => "qemu:///system",
    }
}

#[derive(Clone)]
pub struct LibvirtInspector(Arc<Inner>);

struct Inner {
    options: LibvirtOptions,
    link: Mutex<ConnectionState>,
    /// Whether a call on the connection hangs: the next call opens another.
    has_hung: AtomicBool,
    calls: Arc<Semaphore>,
    /// By subject, held while a call about it is in progress.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// The calls that did not return in time; dead once they have.
    hanging: Mutex<Vec<Weak<Call>>>,
    before: Mutex<HashMap<IncreaseKey, TimedCounter>>,
}

/// A meter of increases, an instance, and its interface.
type IncreaseKey = (&'static str, String, String);

/// A counter at the meter's last sample.
#[derive(Clone, Copy, Debug)]
pub struct TimedCounter {
    /// The monotonic time of the inspection.
    pub time: f64,
    pub value: i64,
}

/// A call in progress: its thread holds it until it returns.
struct Call {
    /// What it is about; `None` for the list of all instances.
    subject: Option<String>,
    /// `None` once it hangs.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

#[derive(Default)]
struct ConnectionState {
    library: Option<Libvirt>,
    connection: Option<Connection>,
}

impl Inner {
    /// The connection; opens it if it is missing or broken.
    fn connection(&self) -> Result<Connection, Error> {
        let mut link = self.link.lock();
        if self.has_hung.swap(false, Ordering::Relaxed) {
            link.connection = None;
        }
        if let Some(connection) = link.connection.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        if link.library.is_none() {
            link.library = Some(Libvirt::load(&self.options.library)?);
        }
        let library = link.library.as_ref().expect("it was just loaded");
        let connection = Connection::open(library, &self.options.uri)?;
        link.connection = Some(connection.clone());
        Ok(connection)
    }

    /// Runs `ask`, and once more if the connection turns out to be broken.
    fn call<T>(&self, ask: impl Fn(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        match ask(&self.connection()?) {
            Err(Failure::Libvirt(error)) if error.is_disconnection() => {
                self.link.lock().connection = None;
                ask(&self.connection()?)
            }
            answer => answer,
        }
    }

    fn domain(&self, connection: &Connection, uuid: &str, stopped_too: bool) -> Result<Domain, Failure> {
        let domain = connection.domain(uuid)?;
        if !(stopped_too && self.options.report_stopped) && domain.info()?.state == SHUT_OFF {
            return Err(Failure::Inspect(InspectError::ShutOff));
        }
        Ok(domain)
    }

    /// Waits until no other call about the same is in progress.
    async fn turn(&self, subject: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock();
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(subject.to_owned()).or_default())
        };
        turn.lock_owned().await
    }

    /// Fails if an earlier call about the same hangs, or too many do.
    fn check_hanging(&self, subject: Option<&str>) -> Result<(), InspectError> {
        let mut hanging = self.hanging.lock();
        hanging.retain(|call| call.strong_count() > 0);
        let is_same = |call: Arc<Call>| subject.is_some() && call.subject.as_deref() == subject;
        if hanging.iter().filter_map(Weak::upgrade).any(is_same) {
            return Err(InspectError::Hanging);
        }
        if hanging.len() >= HANGING_MAX {
            return Err(InspectError::Failed(format!("{} calls of libvirt hang", hanging.len())));
        }
        Ok(())
    }

    fn hangs(&self, call: &Arc<Call>) {
        self.hanging.lock().push(Arc::downgrade(call));
        self.has_hung.store(true, Ordering::Relaxed);
        *call.permit.lock() = None;
    }
}

/// Why a call on a libvirt thread failed.
enum Failure {
    Libvirt(Error),
    Inspect(InspectError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Libvirt(error)
    }
}

impl From<Failure> for InspectError {
    fn from(failure: Failure) -> Self {
        match failure {
            // Any call may find it gone.
            Failure::Libvirt(error) if error.is_no_domain() => InspectError::NotFound,
            Failure::Libvirt(error) => InspectError::Failed(error.to_string()),
            Failure::Inspect(error) => error,
        }
    }
}

impl LibvirtInspector {
    /// Loads the library and connects with the first call.
    pub fn new(options: LibvirtOptions) -> Self {
        LibvirtInspector(Arc::new(Inner {
            options,
            link: Mutex::default(),
            has_hung: AtomicBool::new(false),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            turns: Mutex::default(),
            hanging: Mutex::default(),
            before: Mutex::default(),
        }))
    }

    /// `subject`: what the call is about. It is not made while another call about the same hangs.
    async fn call<T: Send + 'static>(
        &self,
        subject: Option<&str>,
        ask: impl Fn(&Inner, &Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, InspectError> {
        let inner = Arc::clone(&self.0);
        self.limited(subject, move || inner.call(|connection| ask(&inner, connection))).await
    }

    /// Runs a call within the limits of number and time.
    async fn limited<T: Send + 'static>(
        &self,
        subject: Option<&str>,
        call: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, InspectError> {
        let inner = &self.0;
        let time = inner.options.timeout;
        let late = || InspectError::Failed(format!("libvirt does not answer within {} s", time.as_secs()));
        let _turn = match subject {
            Some(subject) => Some(timeout(time, inner.turn(subject)).await.map_err(|_| late())?),
            None => None,
        };
        inner.check_hanging(subject)?;
        let permit = timeout(time, Arc::clone(&inner.calls).acquire_owned()).await.map_err(|_| late())?;
        let permit = Mutex::new(Some(permit.expect("it is never closed")));
        let running = Arc::new(Call { subject: subject.map(str::to_owned), permit });
        let held = Arc::clone(&running);
        let answer = on_own_thread(move || {
            let _held = held;
            call()
        });
        timeout(time, answer).await.unwrap_or_else(|_| {
            inner.hangs(&running);
            Err(late())
        })
    }

    /// A counter's increase since the last sample of this meter; 0 at the first. A reset counter is taken to have
    /// restarted at 0. Inspections for other meters, at other intervals, do not matter: their time is not lost.
    pub fn increase(&self, meter: &'static str, uuid: &str, name: &str, now: TimedCounter) -> i64 {
        let key = (meter, uuid.to_owned(), name.to_owned());
        let mut counters = self.0.before.lock();
        let Some(known) = counters.get_mut(&key) else {
            counters.insert(key, now);
            return 0;
        };
        // A sample of another interval was inspected later, and has this increase, too.
        if now.time < known.time {
            return 0;
        }
        let before = std::mem::replace(known, now).value;
        if now.value < before { now.value } else { now.value - before }
    }

    /// All instances, running or not, without those that libvirt fails to describe. An error if it describes none.
    pub async fn domains(&self) -> Result<Vec<DomainDescription>, InspectError> {
        let uuids = self.call(None, |_, connection| {
            let uuids: Result<Vec<String>, Error> = connection.domains()?.iter().map(Domain::uuid).collect();
            Ok(uuids?)
        });
        let mut described = Vec::new();
        for uuid in uuids.await? {
            let asked = uuid.clone();
            let subject = format!("description of {uuid}");
            let domain =
                self.call(Some(&subject), move |_, connection| Ok(describe(&connection.domain(&asked)?)?));
            described.push((uuid, domain.await));
        }
        let (domains, is_complete) = without_failed(described)?;
        if is_complete {
            self.forget_others(|uuid| domains.iter().any(|domain| domain.uuid == uuid));
        }
        Ok(domains)
    }

    /// Forgets the interfaces of instances that are no longer there.
    pub fn forget_others(&self, is_there: impl Fn(&str) -> bool) {
        self.0.before.lock().retain(|(_, uuid, _), _| is_there(uuid));
    }

    pub async fn instance(&self, uuid: &str) -> Result<InstanceStatistics, InspectError> {
        let asked = uuid.to_owned();
        self.call(Some(uuid), move |inner, connection| {
            let domain = inner.domain(connection, &asked, true)?;
            let info = domain.info()?;
            if info.state == SHUT_OFF {
                return Ok(stopped(info.state, info.vcpus, info.memory_max_kib));
            }
            let memory = domain.memory_statistics()?;
            let statistics = domain.statistics()?;
            Ok(running(info.state, &memory, &statistics))
        })
        .await
    }

    pub async fn vnics(&self, uuid: &str) -> Result<Vec<Vnic>, InspectError> {
        let asked = uuid.to_owned();
        self.call(Some(uuid), move |inner, connection| {
            let domain = inner.domain(connection, &asked, false)?;
            let mut told = Vec::new();
            for vnic in interfaces(&parse(&domain.xml()?)?) {
                match domain.interface_statistics(&vnic.name) {
                    Ok(counters) => told.push(Vnic { counters, ..vnic }),
                    Err(error) if concerns_instance(&error) => return Err(error.into()),
                    Err(error) => tracing::warn!(%error, instance = asked, "an interface is left out"),
                }
            }
            Ok(told)
        })
        .await
    }

    pub async fn disks(&self, uuid: &str) -> Result<Vec<Disk>, InspectError> {
        let asked = uuid.to_owned();
        self.call(Some(uuid), move |inner, connection| {
            let domain = inner.domain(connection, &asked, false)?;
            let mut told = Vec::new();
            for device in disk_devices(&parse(&domain.xml()?)?) {
                match disk(&domain, &device) {
                    Ok(disk) => told.push(disk),
                    Err(error) if concerns_instance(&error) => return Err(error.into()),
                    // During a live migration, for example.
                    Err(error) => tracing::warn!(%error, instance = asked, "a disk is left out"),
                }
            }
            Ok(told)
        })
        .await
    }

    /// By device.
    pub async fn disk_sizes(&self, uuid: &str) -> Result<Vec<(String, BlockInfo)>, InspectError> {
        let asked = uuid.to_owned();
        self.call(Some(uuid), move |inner, connection| {
            let domain = inner.domain(connection, &asked, true)?;
            let mut sizes = Vec::new();
            for device in disk_devices(&parse(&domain.xml()?)?) {
                let info = domain.block_info(&device)?;
                // The capacity of a CD image may be less than its aligned physical size.
                let capacity = info.capacity.max(info.physical);
                sizes.push((device, BlockInfo { capacity, ..info }));
            }
            Ok(sizes)
        })
        .await
    }
}

/// Runs a call on a new thread: unlike one of the runtime's, it does not hold up the end of the process if it hangs.
async fn on_own_thread<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, InspectError> {
    let (answered, answer) = oneshot::channel();
    let run = move || {
        // The caller may have given up.
        let _ = answered.send(call());
    };
    let thread = std::thread::Builder::new().name("libvirt".to_owned()).spawn(run);
    thread.map_err(|error| InspectError::Failed(format!("no thread for libvirt: {error}")))?;
    match answer.await {
        Ok(answer) => answer.map_err(InspectError::from),
        Err(_) => Err(InspectError::Failed("a call of libvirt has panicked".to_owned())),
    }
}

fn parse(xml: &str) -> Result<Element, Failure> {
    Element::parse(xml).map_err(|error| Failure::Inspect(InspectError::Failed(error.to_string())))
}

/// Whether an error about a device of an instance is one about all of them: the instance or the connection is gone.
fn concerns_instance(error: &Error) -> bool {
    error.is_disconnection() || error.is_no_domain()
}

/// The domains that could be described, and whether these are all that exist: one that fails must not hide the others.
///
/// # Errors
/// Domains exist, and none could be described.
fn without_failed(
    domains: Vec<(String, Result<DomainDescription, InspectError>)>,
) -> Result<(Vec<DomainDescription>, bool), InspectError> {
    let (mut found, mut failed) = (Vec::new(), None);
    for (uuid, domain) in domains {
        match domain {
            Ok(domain) => found.push(domain),
            // Gone since it was listed.
            Err(InspectError::NotFound) => {}
            Err(error) => {
                tracing::warn!(%error, instance = uuid, "an instance is left out");
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        failed => Ok((found, failed.is_none())),
    }
}

fn describe(domain: &Domain) -> Result<DomainDescription, Error> {
    Ok(DomainDescription {
        uuid: domain.uuid()?,
        name: domain.name()?,
        state: domain.info()?.state,
        xml: domain.xml()?,
        metadata_xml: nova_metadata(domain)?,
    })
}

fn nova_metadata(domain: &Domain) -> Result<Option<String>, Error> {
    for namespace in NOVA_NAMESPACES {
        match domain.metadata(namespace) {
            Err(error) if error.is_no_metadata() => {}
            metadata => return metadata.map(Some),
        }
    }
    Ok(None)
}

fn disk(domain: &Domain, device: &str) -> Result<Disk, Error> {
    let counters = domain.block_statistics(device)?;
    let more = domain.block_parameters(device)?;
    let time = |name| more.get(name).and_then(Number::from_i128);
    let (read_time_ns, write_time_ns) = (time("rd_total_times"), time("wr_total_times"));
    Ok(Disk { device: device.to_owned(), counters, read_time_ns, write_time_ns })
}

/// Devices of disks that have a medium.
fn disk_devices(domain: &Element) -> Vec<String> {
    let disks = domain.child("devices").into_iter().flat_map(|devices| devices.all("disk"));
    disks
        .filter(|disk| disk.child("source").is_some())
        .filter_map(|disk| disk.child("target")?.attribute("dev"))
        .filter(|device| !device.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Interfaces with a device and an address, without counters.
fn interfaces(domain: &Element) -> Vec<Vnic> {
    let interfaces = domain.child("devices").into_iter().flat_map(|devices| devices.all("interface"));
    interfaces.filter_map(interface).collect()
}

fn interface(interface: &Element) -> Option<Vnic> {
    let of = |path: &str, name: &str| interface.find(path).and_then(|part| part.attribute(name));
    let name = of("target", "dev")?.to_owned();
    let mac = interface.child("mac")?.attribute("address").map(str::to_owned);
    let mut parameters = Map::new();
    for parameter in interface.all("filterref").flat_map(|filter| filter.all("parameter")) {
        let key = parameter.attribute("name").unwrap_or_default().to_lowercase();
        parameters.insert(key, parameter.attribute("value").into());
    }
    parameters.insert("interfaceid".to_owned(), of("virtualport/parameters", "interfaceid").into());
    parameters.insert("bridge".to_owned(), of("source", "bridge").into());
    let filter = of("filterref", "filter").map(str::to_owned);
    Some(Vnic { name, mac, filter, parameters, ..Vnic::default() })
}

#[cfg(test)]
mod tests;
