// Package promqltest runs Prometheus' language tests over HTTP: series go in by remote write, queries are asked at /api/v1.
//
// The server is Prometheus' storage and its query engine at once: `store` is the one interface, `engine` the other.
package promqltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// server is the one under test.
type server struct {
	base string
}

// reply is what each route below /api/v1 answers.
type reply struct {
	Status   string          `json:"status"`
	Data     json.RawMessage `json:"data"`
	Type     string          `json:"errorType"`
	Error    string          `json:"error"`
	Warnings []string        `json:"warnings"`
	Infos    []string        `json:"infos"`
}

func (s server) send(request *http.Request) (int, []byte, error) {
	request.SetBasicAuth("admin", "")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// ask posts a form; an error of the server's is one of its text.
func (s server) ask(path string, form url.Values) (reply, error) {
	request, err := http.NewRequest(http.MethodPost, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, body, err := s.send(request)
	if err != nil {
		return reply{}, err
	}
	var answer reply
	if status == http.StatusNoContent {
		return answer, nil
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("%d of %s is no answer of Prometheus': %s", status, path, body)
	}
	if answer.Status != "success" {
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

// write sends series by remote write, and waits until queries see them.
func (s server) write(series []prompb.TimeSeries) error {
	message, err := (&prompb.WriteRequest{Timeseries: series}).Marshal()
	if err != nil {
		return err
	}
	body := strings.NewReader(string(snappy.Encode(nil, message)))
	request, err := http.NewRequest(http.MethodPost, s.base+"/api/v1/write", body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "snappy")
	request.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	status, text, err := s.send(request)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("remote write: %d: %s", status, text)
	}
	return s.settle()
}

const settleTimeout = 60 * time.Second

// settle waits until all that was written is folded in.
func (s server) settle() error {
	for until := time.Now().Add(settleTimeout); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		request, err := http.NewRequest(http.MethodGet, s.base+"/v1/status?details=false", nil)
		if err != nil {
			return err
		}
		_, body, err := s.send(request)
		if err != nil {
			return err
		}
		var status struct {
			Storage struct {
				Summary struct{ Measures int }
			}
		}
		if err := json.Unmarshal(body, &status); err != nil {
			return fmt.Errorf("the status is %s: %w", body, err)
		}
		if status.Storage.Summary.Measures == 0 {
			return nil
		}
	}
	return errors.New("measures wait for longer than the test does")
}

// clear removes all series.
func (s server) clear() error {
	_, err := s.ask("/api/v1/admin/tsdb/delete_series", url.Values{"match[]": {`{__name__=~".+"}`}})
	return err
}
