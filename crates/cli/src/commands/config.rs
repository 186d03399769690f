//! `gnudi config`: prints all options or the effective values, and checks whether a server or an agent could start with
//! them. Opens no engine.

use anyhow::{Context as _, Result, bail};
use gnudi_endpoint::output;

use super::{agent, messages::note, metrics};
use crate::{
    args::{ConfigArgs, ConfigGeneratorArgs, ServeArgs},
    config::{
        self, Config, Deployment, Project,
        options::{Catalogue, GNOCCHI},
    },
    logging,
};

pub fn run(args: &ConfigArgs) -> Result<()> {
    let project = if args.ceilometer.is_some() { Project::Ceilometer } else { Project::Gnocchi };
    let catalogue = project.catalogue();
    if let Some(section) = &args.section {
        check_section(catalogue, section)?;
    }
    let section = args.section.as_deref();
    let is_of_files = !args.program.files.named.is_empty();
    if !is_of_files && !args.check {
        return output::put(&config::print_all(catalogue, section));
    }
    let config = Config::load_project(project, &args.program)?;
    logging::start_quietly(&args.program, &config);
    if !args.check {
        return output::put(&config::print_effective(&config, section));
    }
    let faults = match args.ceilometer {
        Some(agents) => agent::faults(&config, agents),
        None => faults_of_server(&config, args),
    };
    for fault in &faults {
        logging::log_failure(&gnudi_http::with_causes(&**fault));
    }
    match faults.len() {
        0 => Ok(()),
        count => bail!("a program would not start with this configuration: {count} errors"),
    }
}

/// `gnocchi-config-generator`
pub fn generate(args: &ConfigGeneratorArgs) -> Result<()> {
    for warning in args.program.log.idle.warnings() {
        note(format_args!("gnudi: {warning}"));
    }
    let text = config::print_all(GNOCCHI, None);
    if let Some(path) = &args.output_file {
        return std::fs::write(path, text).with_context(|| path.display().to_string());
    }
    output::put(&text)
}

fn check_section(catalogue: Catalogue, name: &str) -> Result<()> {
    let mut sections: Vec<&str> = catalogue.all().map(|spec| spec.section).collect();
    sections.dedup();
    if sections.iter().any(|section| section.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    bail!("--section {name}: there are {}", sections.join(", "))
}

/// All errors that would prevent the start of `gnudi serve`, found without opening an engine.
fn faults_of_server(config: &Config, args: &ConfigArgs) -> Vec<anyhow::Error> {
    let args = ServeArgs {
        password_file: args.password_file.clone(),
        allow_open_access: args.allow_open_access,
        ..ServeArgs::default()
    };
    let checks = [
        Deployment::of(config, None).and_then(|(deployment, _)| crate::store::check(&deployment, config)),
        super::api::check(config, &args),
        super::default_methods(config).map(drop),
        super::collectors::check(config),
        metrics::check(config, "api"),
        metrics::check(config, "metricd"),
        logging::check(config),
    ];
    checks.into_iter().filter_map(Result::err).collect()
}
