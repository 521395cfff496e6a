//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluicehttp/sluice/internal/test/redistest"
)

// machineAddrs are the addresses of Sluice in the files of deploy.
var machineAddrs = []string{"10.41.0.11", "10.41.0.12", "10.41.0.13"}

// commandIn returns the arguments of the command of Sluice in a comment.
func commandIn(t *testing.T, text string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^#\tsluice (serve (?:.*\\\n#)*.*)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal("no comment has the command")
	}
	return strings.Fields(strings.ReplaceAll(m[1], "\\\n#", ""))
}

// submatches returns what the only group of an expression is in text, for each match.
func submatches(text, expression string) (found []string) {
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// durationIn is the duration that follows an expression in text.
func durationIn(t *testing.T, text, before string) time.Duration {
	t.Helper()
	found := submatches(text, before+`(\d+[a-z]+)`)
	if len(found) != 1 {
		t.Fatalf("%s: %q", before, found)
	}
	d, err := time.ParseDuration(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// serverProgram returns the path of a program of /usr/sbin.
func serverProgram(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	t.Skipf("needs %s (apt-get install %[1]s)", name)
	return ""
}

// HAProxy's times and addresses agree with those of the command, and it notices the end of a
// machine before that refuses connections.
func TestDeployedHAProxy(t *testing.T) {
	text := readDeployed(t, "haproxy", "haproxy.cfg")
	cmd := parsed(t, commandIn(t, text)...)
	checkHAProxy(t, text, cmd)
	out, err := exec.Command(serverProgram(t, "haproxy"), "-c", "-f", filepath.Join(deployed, "haproxy", "haproxy.cfg")).CombinedOutput()
	if err != nil || strings.Contains(string(out), "WARNING") {
		t.Errorf("%v: %s", err, out)
	}
}

// checkHAProxy compares HAProxy's configuration with the command of its machines.
func checkHAProxy(t *testing.T, text string, cmd *cobra.Command) {
	t.Helper()
	if servers := submatches(text, `(?m)^\tserver \S+ (\S+):8080$`); !slices.Equal(servers, machineAddrs) || cmd.Flag("addr").Value.String() != ":8080" {
		t.Errorf("machines: %q", servers)
	}
	if port := submatches(text, `check port (\d+) `); len(port) != 1 || cmd.Flag("admin").Value.String() != ":"+port[0] {
		t.Errorf("checks: %q", port)
	}
	if !strings.Contains(text, "send-proxy-v2") || cmd.Flag("proxy-protocol").Value.String() != "require" || cmd.Flag("proxy-trusted").Value.String() != "[10.41.0.10]" {
		t.Error("one side does not speak the PROXY protocol")
	}
	fails := submatches(text, ` fall (\d+) `)
	if len(fails) != 1 || len(fails[0]) != 1 {
		t.Fatal(fails)
	}
	notices := durationIn(t, text, ` inter `) * time.Duration(fails[0][0]-'0')
	if wait := flagDuration(t, cmd, "drain-wait"); wait < 2*notices {
		t.Errorf("--drain-wait is %v, and HAProxy notices the end in %v", wait, notices)
	}
	if idle := flagDuration(t, cmd, "idle-timeout"); idle <= durationIn(t, text, `timeout http-keep-alive `) || idle <= durationIn(t, text, `timeout client `) {
		t.Errorf("machines close idle connections after %v, before HAProxy does", idle)
	}
}

// nginx accepts its configuration, and closes idle connections first.
func TestDeployedNginx(t *testing.T) {
	text := readDeployed(t, "nginx", "nginx.conf")
	cmd := parsed(t, commandIn(t, text)...)
	if servers := submatches(text, `(?m)^\t\tserver (\S+):8080 `); !slices.Equal(servers, machineAddrs) || cmd.Flag("addr").Value.String() != ":8080" {
		t.Errorf("machines: %q", servers)
	}
	if idle := flagDuration(t, cmd, "idle-timeout"); idle <= durationIn(t, text, `keepalive 128;\s+keepalive_timeout `) {
		t.Errorf("machines close idle connections after %v, before nginx does", idle)
	}
	if size := submatches(text, `client_max_body_size (\d+)m;`); len(size) != 1 || cmd.Flag("max-body").Value.String() != fmt.Sprint(int(size[0][0]-'0')<<20) {
		t.Errorf("bodies: %q, and --max-body is %v", size, cmd.Flag("max-body").Value)
	}
	if strings.Contains(regexp.MustCompile(`#.*`).ReplaceAllString(text, ""), "non_idempotent") {
		t.Error("POSTs are sent twice")
	}
	out, err := exec.Command(serverProgram(t, "nginx"), "-t", "-e", "stderr", "-c", ownNginx(t, text)).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[warn]") {
		t.Errorf("%v: %s", err, out)
	}
}

// ownNginx returns a file with nginx's configuration for processes of a test: with a pid file of
// their own, and without more descriptors, which are few in some places.
func ownNginx(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nginx.conf")
	text = strings.NewReplacer("/run/nginx.pid", file+".pid", "worker_rlimit_nofile 65536;", "", "worker_connections 16384;", "worker_connections 1024;").Replace(text)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A composed is a service of deploy/compose.
type composed struct {
	Image, Restart string
	Build          struct{ Context, Dockerfile string }
	Command        []string
	Grace          string `yaml:"stop_grace_period"`
	ReadOnly       bool   `yaml:"read_only"`
	Volumes, Ports []string
	Networks       map[string]struct {
		Address string `yaml:"ipv4_address"`
	}
}

// readCompose returns the services of deploy/compose.
func readCompose(t *testing.T) map[string]composed {
	t.Helper()
	var compose struct{ Services map[string]composed }
	if err := yaml.Unmarshal([]byte(readDeployed(t, "compose", "compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	return compose.Services
}

// The services of deploy/compose agree with the command, HAProxy's configuration, and each
// other, and the files that they mount exist.
func TestDeployedCompose(t *testing.T) {
	services := readCompose(t)
	var sluices []string
	for name, s := range services {
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join(deployed, "compose", source)); err != nil && !strings.HasPrefix(source, "${") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.Restart == "" || s.Image == "" || s.Networks["machines"].Address == "" {
			t.Errorf("%s: %+v", name, s)
		}
		if s.Image != "sluice" {
			continue
		}
		sluices = append(sluices, s.Networks["machines"].Address)
		cmd := parsed(t, s.Command...)
		checkHAProxy(t, readDeployed(t, "haproxy", "haproxy.cfg"), cmd)
		if grace, err := time.ParseDuration(s.Grace); err != nil || grace <= ends(t, cmd) {
			t.Errorf("%s: stop_grace_period is %v, and the command may need %v", name, s.Grace, ends(t, cmd))
		}
		if _, err := os.Stat(filepath.Join(deployed, "compose", s.Build.Context, s.Build.Dockerfile)); err != nil || !s.ReadOnly || len(s.Ports) > 0 {
			t.Errorf("%s: %v, %+v", name, err, s)
		}
	}
	if slices.Sort(sluices); !slices.Equal(sluices, machineAddrs) || services["haproxy"].Networks["machines"].Address != "10.41.0.10" {
		t.Errorf("machines: %q", sluices)
	}
	var prometheus struct {
		Scrape []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(readDeployed(t, "compose", "prometheus.yml")), &prometheus); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, addr := range machineAddrs {
		want = append(want, addr+":9090")
	}
	if got := prometheus.Scrape[0].Static[0].Targets; !slices.Equal(got, want) {
		t.Errorf("Prometheus reads %q", got)
	}
}

// What compose gives to Valkey are options that it has.
func TestDeployedValkey(t *testing.T) {
	redistest.New(t, readCompose(t)["valkey"].Command[1:]...)
}
