package h2

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const streamsRole = "streams"

// Roles has what the client's process of the subcommand streams does.
func Roles() map[string]process.Role { return map[string]process.Role{streamsRole: putStreams} }

// A streamsLoad is what the client puts on a server.
type streamsLoad struct {
	Addr             string
	Conns            int
	Path             string
	Streams          int
	Period, Duration time.Duration
}

// A streamsResult is what became of it.
type streamsResult struct {
	Small, Others, Failures int // answered with 200, and what was not
	Elapsed                 time.Duration
	Latency                 *latency.Histogram // of the small ones
}

func (r *streamsResult) add(other *streamsResult) {
	if r.Latency == nil {
		r.Latency = new(latency.Histogram)
	}
	r.Small, r.Others, r.Failures, r.Elapsed = r.Small+other.Small, r.Others+other.Others, r.Failures+other.Failures, r.Elapsed+other.Elapsed
	r.Latency.Add(other.Latency)
}

// put has the client's process put the load on a server.
func (c company) put(o streamsOptions, client *process.Child, addr string) (*streamsResult, error) {
	text, err := json.Marshal(streamsLoad{Addr: addr, Conns: o.conns, Path: c.path, Streams: c.streams, Period: c.period, Duration: o.duration})
	if err != nil {
		return nil, err
	}
	if err := client.Tell(string(text)); err != nil {
		return nil, err
	}
	result := new(streamsResult)
	if err := client.Result(result); err != nil {
		return nil, err
	}
	if result.Small == 0 {
		return nil, fmt.Errorf("no small request was answered")
	}
	return result, nil
}

// putStreams is the role of the client's process: each line is a load.
func putStreams([]byte) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var l streamsLoad
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return err
		}
		text, err := json.Marshal(l.run())
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

func (l streamsLoad) run() streamsResult {
	var all streamsResult
	var conns sync.WaitGroup
	var mu sync.Mutex
	for range l.Conns {
		conns.Go(func() {
			r := l.runConn()
			mu.Lock()
			defer mu.Unlock()
			all.add(&r)
		})
	}
	conns.Wait()
	all.Elapsed = l.Duration
	return all
}

// runConn uses one connection.
func (l streamsLoad) runConn() streamsResult {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	defer transport.CloseIdleConnections()
	result := streamsResult{Latency: new(latency.Histogram)}
	var mu sync.Mutex // of result
	ask := func(path string, count *int) bool {
		isGood := get(transport, "http://"+l.Addr+path+peers.Query)
		mu.Lock()
		defer mu.Unlock()
		if isGood {
			*count++
		} else {
			result.Failures++
		}
		return isGood
	}
	if !ask("/articles", new(int)) { // opens the connection
		return result
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.Duration)
	defer cancel()
	var running sync.WaitGroup
	for range l.Streams {
		running.Go(func() {
			for ask(l.Path, &result.Others) { // once at least, however late it begins
				if time.Sleep(l.Period); ctx.Err() != nil {
					return
				}
			}
		})
	}
	for due := time.Now(); ctx.Err() == nil; due = due.Add(smallPeriod) {
		time.Sleep(time.Until(due))
		running.Go(func() {
			if ask("/articles", &result.Small) {
				result.Latency.Record(time.Since(due))
			}
		})
	}
	running.Wait()
	return result
}

// get makes a request, and reports whether the answer is a whole 200.
func get(transport *http.Transport, url string) bool {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	r.Header.Set("User-Agent", "streams")
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err == nil && resp.StatusCode == http.StatusOK
}
