// Telegraf, of which main.go names the plugins.
module gnudi/telegraf

go 1.25.5

require github.com/influxdata/telegraf v1.37.2
