package metrics

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/prefork"
)

// The dashboard and the alerts in deploy.
const (
	dashboardFile = "../../deploy/grafana/sluice.json"
	alertsFile    = "../../deploy/prometheus/alerts.yml"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exported returns the names of all metrics, as Prometheus stores them.
func exported() map[string]bool {
	names := map[string]bool{}
	fullName := regexp.MustCompile(`fqName: "([^"]+)"`)
	for _, d := range append(NewCollector(&prefork.Prefork{}).all, NewPushCollector().all...) {
		name := fullName.FindStringSubmatch(d.String())[1]
		names[name] = true
		if name == "sluice_request_duration_seconds" {
			delete(names, name)
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[name+suffix] = true
			}
		}
	}
	return names
}

// The dashboard and the alerts name metrics that exist.
func TestDeployedNames(t *testing.T) {
	known, metric := exported(), regexp.MustCompile(`\bsluice_[a-z0-9_]+`)
	for file, least := range map[string]int{dashboardFile: 35, alertsFile: 12} {
		found := map[string]bool{}
		for _, name := range metric.FindAllString(read(t, file), -1) {
			if !known[name] && !found[name] {
				t.Errorf("%s: there is no %s", file, name)
			}
			found[name] = true
		}
		if len(found) < least {
			t.Errorf("%s names only %d metrics", file, len(found))
		}
	}
}

// expressions returns the queries of the dashboard, with its variables replaced.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			ID      int
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, p := range dashboard.Panels {
		ids = append(ids, p.ID)
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "5s").Replace(target.Expr))
		}
	}
	slices.Sort(ids)
	if len(all) < 30 || len(slices.Compact(ids)) != len(dashboard.Panels) {
		t.Errorf("%d queries, panels %v", len(all), ids)
	}
	return all
}

// A Prometheus scrapes a server, and has answers to the queries of the dashboard. Its tool
// accepts the alerts.
func TestPrometheus(t *testing.T) {
	queries := expressions(t)
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: nothing is scraped", program)
		}
	}
	if out, err := exec.Command("promtool", "check", "rules", alertsFile).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	addr := serveSingle(t)
	api := startPrometheus(t, addr)
	until(t, "Prometheus has scraped twice", func() bool {
		get(t, addr, "/", "")
		return len(query(t, api, `rate(sluice_requests_total{code="2xx"}[5s]) > 0`)) > 0
	})
	withoutAnswer := 0
	for _, q := range queries {
		if len(query(t, api, q)) == 0 {
			withoutAnswer++
			// This server has no master, no WebSockets and no events.
			if !strings.Contains(q, "sluice_master_") && !strings.Contains(q, "sluice_websocket_") && !strings.Contains(q, "sluice_sse_") {
				t.Errorf("no answer to %s", q)
			}
		}
	}
	if withoutAnswer > 8 {
		t.Errorf("%d of %d queries have no answer", withoutAnswer, len(queries))
	}
}

// startPrometheus starts one that scrapes addr each second, and returns its address.
func startPrometheus(t *testing.T, addr string) (api string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api = free.Addr().String()
	free.Close()
	alerts, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n  - job_name: app\n    static_configs: [{targets: [%q]}]\n", alerts, addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", api)
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	until(t, "Prometheus is ready", func() bool {
		resp, err := http.Get("http://" + api + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return api
}

// query returns the series that Prometheus answers with.
func query(t *testing.T, api, expr string) []json.RawMessage {
	t.Helper()
	resp, err := http.Get("http://" + api + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" {
		t.Errorf("%s: %v, %s", expr, err, body)
	}
	return answer.Data.Result
}
