//go:build never

// Package main keeps Telegraf's own program in go.mod; the tests compile that program with the plugins that they use.
package main

import _ "github.com/influxdata/telegraf/cmd/telegraf"
