//! The samples as rows in PostgreSQL.
//!
//! The database is used well: rows are loaded by COPY, thousands in each, over several connections; it is vacuumed and
//! analysed before the first read; and a read is one prepared statement, where Ceilometer sends one per period.

use std::{
    fmt::Write as _,
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use gnudi_bench::random::splitmix;
use gnudi_model::Timestamp;
use sqlx::{
    Connection as _, Executor as _, PgConnection, Row as _,
    postgres::{PgConnectOptions, PgSslMode},
};
use tempfile::TempDir;

use super::{
    Loaded, Store,
    plan::{Plan, Point, time_text},
};
use crate::{
    body::Values,
    context::{Context, Stop},
    peers::postgres::Postgres,
};

const METER: &str = "cpu_util";

const COPY: &str = "COPY sample (meter_id, resource_id, volume, timestamp, recorded_at, message_signature, message_id) \
                    FROM STDIN";

const READ: &str = "SELECT floor(date_part('epoch', sample.timestamp) / $1) * $1 AS period, avg(sample.volume) \
     FROM sample JOIN meter ON meter.id = sample.meter_id JOIN resource ON resource.internal_id = sample.resource_id \
     WHERE meter.name = $2 AND resource.resource_id = $3 GROUP BY period ORDER BY period";

const SIZE: &str = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class \
                    WHERE relname IN ('meter', 'resource', 'metadata_text', 'sample') AND relkind = 'r'";

/// The instance's id in the cloud.
fn instance_name(instance: usize) -> String {
    uuid::Uuid::from_u128(scattered(instance as u64)).to_string()
}

pub struct Sql<'a> {
    context: &'a Context,
    options: PgConnectOptions,
    reader: PgConnection,
    meter: i32,
    /// The rows of the instances.
    resources: Vec<i32>,
    _server: Postgres,
    _directory: TempDir,
}

impl<'a> Sql<'a> {
    /// Starts a server, and creates the schema and the instances.
    pub fn start(plan: &Plan, context: &'a Context) -> Result<Self> {
        let (server, directory) = Postgres::start_alone(context, "samples")?;
        let options: PgConnectOptions = server.url().parse()?;
        let options = options.ssl_mode(PgSslMode::Disable);
        let (reader, meter, resources) = context.runtime.block_on(async {
            let mut connection = PgConnection::connect_with(&options).await?;
            connection.execute(include_str!("schema.sql")).await?;
            let meter = sqlx::query_scalar(
                "INSERT INTO meter (name, type, unit) VALUES ($1, 'gauge', '%') RETURNING id",
            );
            let meter = meter.bind(METER).fetch_one(&mut connection).await?;
            let mut resources = Vec::new();
            for instance in 0..plan.instances {
                resources.push(create_instance(&mut connection, instance).await?);
            }
            Ok::<_, sqlx::Error>((connection, meter, resources))
        })?;
        Ok(Sql { context, options, reader, meter, resources, _server: server, _directory: directory })
    }

    /// Copies the samples of some instances, a transaction per batch; returns their number.
    async fn copy(&self, plan: &Plan, instances: Range<usize>, stop: &Stop) -> Result<usize, sqlx::Error> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let mut values: Vec<Values> = instances.clone().map(Plan::values).collect();
        let mut copied = 0;
        for span in plan.batches() {
            if stop.is_set() {
                break;
            }
            let mut rows = String::new();
            // By time, as polling produces them.
            for time_ms in (0..span.count as i64).map(|index| span.start_ms + index * span.step_ms) {
                for (instance, values) in instances.clone().zip(&mut values) {
                    write_row(self.meter, self.resources[instance], time_ms, values, &mut rows);
                }
            }
            let mut copy = connection.copy_in_raw(COPY).await?;
            copy.send(rows.as_bytes()).await?;
            copied += copy.finish().await? as usize;
        }
        connection.close().await?;
        Ok(copied)
    }
}

async fn create_instance(connection: &mut PgConnection, instance: usize) -> Result<i32, sqlx::Error> {
    let metadata = [
        ("display_name", format!("instance-{instance}")),
        ("host", format!("compute-{}", instance / 10)),
        ("flavor.name", "m1.small".to_owned()),
        ("status", "active".to_owned()),
    ];
    let json: serde_json::Map<String, serde_json::Value> =
        metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect();
    let statement = "INSERT INTO resource (resource_id, user_id, project_id, source_id, resource_metadata, metadata_hash) \
                     VALUES ($1, $2, $3, 'openstack', $4, md5($4)) RETURNING internal_id";
    let id: i32 = sqlx::query_scalar(statement)
        .bind(instance_name(instance))
        .bind(format!("user-{}", instance % 7))
        .bind(format!("project-{}", instance % 13))
        .bind(serde_json::Value::Object(json).to_string())
        .fetch_one(&mut *connection)
        .await?;
    for (key, value) in metadata {
        sqlx::query("INSERT INTO metadata_text (id, meta_key, value) VALUES ($1, $2, $3)")
            .bind(id)
            .bind(key)
            .bind(value)
            .execute(&mut *connection)
            .await?;
    }
    Ok(id)
}

/// A sample's row in COPY's text format.
fn write_row(meter: i32, resource: i32, time_ms: i64, values: &mut Values, rows: &mut String) {
    let hundredths = values.next_hundredths();
    // Both without a zone.
    let time = Timestamp(time_ms * 1_000_000).to_iso_micros();
    let time = &time[..time.len() - "+00:00".len()];
    // A signature of 64 hexadecimal digits and an id, as in each message.
    let seed = (resource as u64) << 44 ^ time_ms as u64;
    let (first, second, id) = (scattered(seed), scattered(!seed), scattered(seed.rotate_left(17)));
    writeln!(
        rows,
        "{meter}\t{resource}\t{}.{:02}\t{time}\t{time}\t{first:032x}{second:032x}\t{}",
        hundredths / 100,
        hundredths % 100,
        uuid::Uuid::from_u128(id)
    )
    .expect("a String takes it");
}

/// Pseudo-random, the same in every run.
fn scattered(seed: u64) -> u128 {
    let first = splitmix(&mut { seed });
    u128::from(first) << 64 | u128::from(splitmix(&mut { first }))
}

impl Store for Sql<'_> {
    fn load(&mut self, plan: &Plan) -> Result<Loaded> {
        let stop = &self.context.stop;
        let start = Instant::now();
        let copies = plan.shares().into_iter().map(|share| self.copy(plan, share, stop));
        let samples = self.context.runtime.block_on(try_join_all(copies)).context("COPY")?.iter().sum();
        let elapsed = start.elapsed();
        let mut note = "rows by COPY, in transactions of their own".to_owned();
        if !stop.is_set() {
            self.context.runtime.block_on(self.reader.execute("VACUUM ANALYZE"))?;
            note += "; then vacuumed and analysed, which is not counted";
        }
        Ok(Loaded { samples, elapsed, note })
    }

    fn read(&mut self, instance: usize, granularity_s: i64) -> Result<(Duration, Vec<Point>)> {
        let statement =
            sqlx::query(READ).bind(granularity_s as f64).bind(METER).bind(instance_name(instance));
        let start = Instant::now();
        let rows = self.context.runtime.block_on(statement.fetch_all(&mut self.reader))?;
        let elapsed = start.elapsed();
        let point = |row: &sqlx::postgres::PgRow| {
            Ok::<_, sqlx::Error>((time_text(row.try_get::<f64, _>(0)? as i64), row.try_get(1)?))
        };
        Ok((elapsed, rows.iter().map(point).collect::<Result<_, _>>()?))
    }

    fn disk_bytes(&mut self) -> Result<Option<u64>> {
        let size: i64 =
            self.context.runtime.block_on(sqlx::query_scalar(SIZE).fetch_one(&mut self.reader))?;
        Ok(Some(size as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::START_MS;

    #[test]
    fn rows_have_every_column() {
        let (mut rows, mut values) = (String::new(), Plan::values(0));
        for time_ms in [START_MS, START_MS + 60_000] {
            write_row(1, 7, time_ms, &mut values, &mut rows);
        }
        let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split('\t').collect()).collect();
        let first = Plan::values(0).next_hundredths() as f64 / 100.0;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0][..2], ["1", "7"]);
        assert_eq!(rows[0][2].parse::<f64>().unwrap(), first);
        assert_eq!(rows[0][3..5], ["2015-01-01T00:00:00.123000"; 2]);
        assert_eq!(rows[1][3], "2015-01-01T00:01:00.123000");
        assert_eq!((rows[0][5].len(), rows[0][6].len()), (64, 36));
        assert_ne!(rows[0][6], rows[1][6]);
        assert_eq!(COPY.matches(',').count() + 1, rows[0].len());
    }
}
