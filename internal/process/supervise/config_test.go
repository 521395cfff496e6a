package supervise

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Zero values become the documented defaults, and set values are kept.
func TestConfigDefaults(t *testing.T) {
	const s = time.Second
	type times struct{ boot, grace, drain, orphan time.Duration }
	for _, c := range []struct {
		config Config
		want   times
	}{
		{Config{}, times{30 * s, 5 * s, 5 * s, 5 * s}},
		{Config{BootTimeout: 1}, times{1, 5 * s, 5 * s, 5 * s}},
		{Config{GracePeriod: 2}, times{30 * s, 2, 2, 2}},
		{Config{GracePeriod: 2, DrainTimeout: 3}, times{30 * s, 2, 3, 2}},
		{Config{GracePeriod: 2, OrphanGrace: 4}, times{30 * s, 2, 2, 4}},
	} {
		c.config.Workers = 3
		got, err := c.config.withDefaults()
		if err != nil || (times{got.BootTimeout, got.GracePeriod, got.DrainTimeout, got.OrphanGrace}) != c.want {
			t.Errorf("%+v: %+v, %v", c.want, got, err)
		}
		if got.MinWorkers != 1 || got.MaxWorkers != max(3, 4*cpus()) || !reflect.DeepEqual(got.Args, os.Args) || got.Logger == nil || got.Inboxes || got.HangTimeout != 0 {
			t.Errorf("%+v", got)
		}
	}
	got, err := Config{Workers: 1000, MinWorkers: 2, Args: []string{"name"}, Inboxes: true, Logger: noLogger{}}.withDefaults()
	if err != nil || got.MaxWorkers != 1000 || got.MinWorkers != 2 || len(got.Args) != 1 || got.Inboxes != hasInboxes || got.Logger != (noLogger{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Invalid values are refused with a reason.
func TestConfigIsChecked(t *testing.T) {
	for text, change := range map[string]func(c *Config){
		"0 workers":                         func(c *Config) { c.Workers = 0 },
		"-1 workers":                        func(c *Config) { c.Workers = -1 },
		"4 workers are not within 1 and 3":  func(c *Config) { c.Workers, c.MaxWorkers = 4, 3 },
		"2 workers are not within 3 and 5":  func(c *Config) { c.Workers, c.MinWorkers, c.MaxWorkers = 2, 3, 5 },
		ErrConfigurationSize.Error():        func(c *Config) { c.Configuration = make([]byte, MaxConfiguration+1) },
		"BootTimeout is negative: -1ns":     func(c *Config) { c.BootTimeout = -1 },
		"GracePeriod is negative: -1ns":     func(c *Config) { c.GracePeriod = -1 },
		"DrainTimeout is negative: -1ns":    func(c *Config) { c.DrainTimeout = -1 },
		"OrphanGrace is negative: -1ns":     func(c *Config) { c.OrphanGrace = -1 },
		"HangTimeout is negative: -1ns":     func(c *Config) { c.HangTimeout = -1 },
		"RecoverWindow is negative: -1ns":   func(c *Config) { c.RecoverWindow = -1 },
		"RecoverInterval is negative: -1ns": func(c *Config) { c.RecoverInterval = -1 },
	} {
		c := Config{Workers: 3}
		change(&c)
		if _, err := c.withDefaults(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, c := range []Config{
		{Workers: 3, MaxWorkers: 3}, {Workers: 3, MinWorkers: 3}, {Workers: 1}, {Workers: 1, Configuration: make([]byte, MaxConfiguration)},
	} {
		if _, err := c.withDefaults(); err != nil {
			t.Errorf("%d workers within %d and %d: %v", c.Workers, c.MinWorkers, c.MaxWorkers, err)
		}
	}
}

// The number of files that a worker inherits is not below what it may be.
func TestMostFiles(t *testing.T) {
	c := Config{MaxWorkers: 70, SharedFiles: make([]*os.File, 20)}
	const standard, sockets, control, lifeline, rx = 3, 64, 1, 1, 1
	for _, c.Inboxes = range []bool{false, true} {
		want := standard + sockets + control + lifeline + len(c.SharedFiles)
		if c.Inboxes {
			want += rx + c.MaxWorkers
		}
		if got := c.mostFiles(); got < want || got > want+standard+sockets {
			t.Errorf("inboxes %v: %d, want %d", c.Inboxes, got, want)
		}
	}
}

// What the errors say.
func TestErrors(t *testing.T) {
	boot := &BootError{Slot: 3, Class: "listen", Text: "in use"}
	restart := &RestartError{Slot: 4, Err: boot}
	if got, want := restart.Error(), "sluice: rolling restart failed in slot 4: sluice: worker 3 cannot start: listen: in use"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if restart.Unwrap() != boot {
		t.Errorf("%v", restart.Unwrap())
	}
	if got, want := ErrConfigurationSize.Error(), "sluice: the workers' configuration is longer than 32768 bytes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
