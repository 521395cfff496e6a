package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// deployed is where the files are that start the command.
const deployed = "../../deploy"

// parsed returns the options of a command line of "sluice serve" in a file of deploy.
func parsed(t *testing.T, args ...string) *cobra.Command {
	t.Helper()
	cmd := newServeCommand()
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("it does not start serve: %q", args)
	}
	if err := cmd.ParseFlags(withWorkers(args[1:])); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if rest := cmd.Flags().Args(); len(rest) > 1 {
		t.Fatalf("%q: folders %q", args, rest)
	}
	return cmd
}

// readDeployed returns a file of deploy.
func readDeployed(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{deployed}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// flagDuration is the value of a flag.
func flagDuration(t *testing.T, cmd *cobra.Command, name string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmd.Flag(name).Value.String())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ends returns the longest time from SIGTERM to the exit of a command.
func ends(t *testing.T, cmd *cobra.Command) time.Duration {
	t.Helper()
	return flagDuration(t, cmd, "drain-wait") + flagDuration(t, cmd, "drain") + endSlack
}

// The units start the command with flags that it has, and stop it later than it ends.
func TestUnits(t *testing.T) {
	text := readDeployed(t, "systemd", "sluice.service")
	value := func(key string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + key + `=(.+)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no %s", key)
		}
		return m[1]
	}
	cmd := parsed(t, strings.Fields(value("ExecStart"))[1:]...)
	seconds, err := strconv.Atoi(value("TimeoutStopSec"))
	if longest := ends(t, cmd); err != nil || time.Duration(seconds)*time.Second <= longest {
		t.Errorf("TimeoutStopSec=%d, and the command may need %v", seconds, longest)
	}
	if addr := cmd.Flag("addr").Value.String(); !strings.Contains(readDeployed(t, "systemd", "sluice.socket"), "\nListenStream="+strings.TrimPrefix(addr, ":")+"\n") {
		t.Errorf("the socket unit does not listen on %s", addr)
	}
}

// systemd accepts the units.
func TestUnitsVerify(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze (apt-get install systemd)")
	}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(deployed, "systemd", "*"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = filepath.Join(dir, filepath.Base(file))
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/sluice", binary)) // it must exist
		if err := os.WriteFile(files[i], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
