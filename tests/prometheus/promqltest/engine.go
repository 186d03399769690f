package promqltest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
)

// engine is a promql.QueryEngine that asks the server.
type engine struct {
	server server
}

func (e engine) NewInstantQuery(_ context.Context, _ storage.Queryable, _ promql.QueryOpts, text string, at time.Time) (promql.Query, error) {
	return &query{e.server, "/api/v1/query", url.Values{"query": {text}, "time": {seconds(at)}}}, nil
}

func (e engine) NewRangeQuery(_ context.Context, _ storage.Queryable, _ promql.QueryOpts, text string, start, end time.Time, step time.Duration) (promql.Query, error) {
	form := url.Values{
		"query": {text}, "start": {seconds(start)}, "end": {seconds(end)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}
	return &query{e.server, "/api/v1/query_range", form}, nil
}

func seconds(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)
}

type query struct {
	server server
	path   string
	form   url.Values
}

func (q *query) Exec(context.Context) *promql.Result {
	answer, err := q.server.ask(q.path, q.form)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), `invalid parameter "query": `)
		return &promql.Result{Err: fmt.Errorf("%s", text)}
	}
	value, err := valueOf(answer.Data)
	return &promql.Result{Err: err, Value: value, Warnings: annotationsOf(answer)}
}

func (q *query) Close()                      {}
func (q *query) Cancel()                     {}
func (q *query) Statement() parser.Statement { return nil }
func (q *query) Stats() *stats.Statistics    { return nil }
func (q *query) String() string              { return q.form.Get("query") }

// annotationsOf gives warnings and infos the types by which they are counted.
func annotationsOf(answer reply) annotations.Annotations {
	var all annotations.Annotations
	add := func(texts []string, kind error) {
		for _, text := range texts {
			all.Add(fmt.Errorf("%w%s", kind, strings.TrimPrefix(text, kind.Error())))
		}
	}
	add(answer.Warnings, annotations.PromQLWarning)
	add(answer.Infos, annotations.PromQLInfo)
	return all
}

// point is [seconds, "value"].
type point struct {
	T int64
	F float64
}

func (p *point) UnmarshalJSON(text []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	at, err := strconv.ParseFloat(string(pair[0]), 64)
	if err != nil {
		return err
	}
	var value string
	if err := json.Unmarshal(pair[1], &value); err != nil {
		return err
	}
	p.T = int64(math.Round(at * 1000))
	p.F, err = strconv.ParseFloat(value, 64)
	return err
}

func valueOf(data json.RawMessage) (parser.Value, error) {
	var typed struct {
		ResultType parser.ValueType
		Result     json.RawMessage
	}
	if err := json.Unmarshal(data, &typed); err != nil {
		return nil, err
	}
	switch typed.ResultType {
	case parser.ValueTypeScalar:
		var one point
		err := json.Unmarshal(typed.Result, &one)
		return promql.Scalar{T: one.T, V: one.F}, err
	case parser.ValueTypeString:
		var pair [2]any
		if err := json.Unmarshal(typed.Result, &pair); err != nil {
			return nil, err
		}
		text, _ := pair[1].(string)
		return promql.String{V: text}, nil
	case parser.ValueTypeVector:
		var samples []struct {
			Metric labels.Labels
			Value  point
		}
		if err := json.Unmarshal(typed.Result, &samples); err != nil {
			return nil, err
		}
		vector := promql.Vector{}
		for _, sample := range samples {
			vector = append(vector, promql.Sample{Metric: sample.Metric, T: sample.Value.T, F: sample.Value.F})
		}
		return vector, nil
	case parser.ValueTypeMatrix:
		var all []struct {
			Metric labels.Labels
			Values []point
		}
		if err := json.Unmarshal(typed.Result, &all); err != nil {
			return nil, err
		}
		matrix := promql.Matrix{}
		for _, one := range all {
			series := promql.Series{Metric: one.Metric}
			for _, at := range one.Values {
				series.Floats = append(series.Floats, promql.FPoint{T: at.T, F: at.F})
			}
			matrix = append(matrix, series)
		}
		return matrix, nil
	default:
		return nil, fmt.Errorf("a result of type %q", typed.ResultType)
	}
}
