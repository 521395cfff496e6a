package metrics

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
)

// roleVariable makes the test binary play a server.
const roleVariable = "SLUICE_METRICS_TEST"

// patience bounds waits that normally take milliseconds.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(serve())
	}
	os.Exit(m.Run())
}

// serve runs the server: master and workers.
func serve() int {
	if !prefork.IsChild() {
		go func() { // the test has ended
			io.Copy(io.Discard, os.Stdin)
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}()
	}
	hits := shared.Must(shared.Default().Counter("hits"))
	server := &sluice.Server{}
	p := prefork.New(server)
	metrics := Handler(p)
	server.Handler = func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/metrics":
			metrics(ctx)
		case "/missing":
			ctx.Error("", sluice.StatusNotFound)
		default:
			hits.Inc()
			fmt.Fprint(ctx, os.Getpid())
		}
	}
	p.Workers, p.RecoverThreshold, p.RecoverInterval = 2, 10, 0
	p.Admin, p.AdminHandler = "127.0.0.1:0", metrics
	p.OnFleetReady = func() { fmt.Println("serving", p.Addrs()[0], p.AdminAddr()) }
	if err := p.ListenAndServe("127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// start starts a server and returns its addresses.
func start(t *testing.T) (addr, admin string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=1")
	if _, err := cmd.StdinPipe(); err != nil { // closing it ends the server
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		force := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer force.Stop()
		io.Copy(io.Discard, out) // until the last worker has ended
		cmd.Wait()
	})
	t.Cleanup(stop)
	boot := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer boot.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "serving %s %s", &addr, &admin); err == nil {
			return addr, admin
		}
		t.Log(lines.Text())
	}
	t.Fatal("the server does not serve")
	return "", ""
}

// get sends a request on a new connection.
func get(t *testing.T, addr, path, accept string) (body, contentType string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := http.NewRequest("GET", "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all), resp.Header.Get("Content-Type")
}

// A page is a response's content.
type page map[string]*dto.MetricFamily

func scrape(t *testing.T, addr string) page {
	t.Helper()
	body, _ := get(t, addr, "/metrics", "text/plain")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	return families
}

// value returns the sum of a metric's values with a label; an empty label means any.
func (p page) value(name, label, value string) (sum float64) {
	for _, m := range p[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label && l.GetValue() != value {
				m = nil
				break
			}
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum
}

// until waits for a condition.
func until(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// Every process has the numbers of all workers, and those of a killed worker stay.
func TestFleet(t *testing.T) {
	addr, admin := start(t)
	const pages, missing = 40, 5
	pids := make(map[string]bool)
	for range pages {
		pid, _ := get(t, addr, "/", "")
		pids[pid] = true
	}
	for range missing {
		get(t, addr, "/missing", "")
	}
	master := scrape(t, admin)
	for name, want := range map[string]float64{
		"hits_total": pages, "sluice_workers_wanted": 2, "sluice_workers_ready": 2, "sluice_worker_info": 2, "sluice_worker_crashes_total": 0,
	} {
		if got := master.value(name, "", ""); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	check := func(p page) {
		t.Helper()
		if ok, notFound := p.value("sluice_requests_total", "code", "2xx"), p.value("sluice_requests_total", "code", "4xx"); ok < pages || notFound != missing {
			t.Errorf("%v and %v requests", ok, notFound)
		}
		if n := p.value("sluice_connections_accepted_total", "", ""); n < pages+missing {
			t.Errorf("%v connections", n)
		}
		if n := p.value("hits_total", "", ""); n != pages {
			t.Errorf("%v hits", n)
		}
	}
	check(master)
	until(t, "workers know what the master knows", func() bool {
		return scrape(t, addr).value("sluice_workers_wanted", "", "") == 2
	})
	for range 6 { // most likely different workers
		check(scrape(t, addr))
	}
	until(t, "all processes have said how they are", func() bool {
		p := scrape(t, admin)
		return p.value("sluice_worker_resident_bytes", "slot", "0") > 1<<20 && p.value("sluice_worker_resident_bytes", "slot", "1") > 1<<20 &&
			p.value("sluice_master_resident_bytes", "", "") > 1<<20
	})

	var victim int
	for pid := range pids {
		victim, _ = strconv.Atoi(pid)
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the worker is replaced, and everybody knows", func() bool {
		p := scrape(t, addr)
		return p.value("sluice_worker_crashes_total", "", "") == 1 && p.value("sluice_slot_restarts_total", "", "") == 1 &&
			p.value("sluice_workers_ready", "", "") == 2 && p.value("sluice_worker_info", "pid", strconv.Itoa(victim)) == 0
	})
	check(scrape(t, addr))
	check(scrape(t, admin))
}

// serveSingle returns the address of a server without workers, which answers /metrics.
func serveSingle(t *testing.T) (addr string) {
	t.Helper()
	server := &sluice.Server{}
	figures := ServerHandler(server)
	server.Handler = func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/metrics" {
			figures(ctx)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(ln)
	t.Cleanup(func() { server.Shutdown() })
	return ln.Addr().String()
}

// A server without workers has the metrics of a fleet, but for those of the master.
func TestSingleHasTheNamesOfAFleet(t *testing.T) {
	_, admin := start(t)
	var fleet page
	until(t, "workers are known", func() bool {
		fleet = scrape(t, admin)
		return fleet.value("sluice_workers_ready", "", "") == 2
	})
	addr := serveSingle(t)
	get(t, addr, "/", "")
	single := scrape(t, addr)
	var want []string
	for name := range fleet {
		if strings.HasPrefix(name, "sluice_") && !strings.HasPrefix(name, "sluice_master_") {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(single)); !slices.Equal(got, want) {
		t.Errorf("a single process has\n%q\na fleet\n%q", got, want)
	}
	if n := single.value("sluice_workers_ready", "", ""); n != 1 {
		t.Errorf("%v workers are ready", n)
	}
	if n := single.value("sluice_requests_total", "code", "2xx"); n != 1 {
		t.Errorf("%v requests", n)
	}
	if n := single["sluice_request_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount(); n != 1 {
		t.Errorf("%v durations", n)
	}
}

// A client that prefers OpenMetrics gets it.
func TestOpenMetrics(t *testing.T) {
	_, admin := start(t)
	body, contentType := get(t, admin, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
	if !strings.HasPrefix(contentType, "application/openmetrics-text") || !strings.HasSuffix(body, "# EOF\n") {
		t.Errorf("%q:\n%s", contentType, body)
	}
	if body, contentType := get(t, admin, "/metrics", "*/*"); !strings.HasPrefix(contentType, "text/plain") || strings.Contains(body, "# EOF") {
		t.Errorf("%q:\n%s", contentType, body)
	}
}
