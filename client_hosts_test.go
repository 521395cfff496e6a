package sluice

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Each field that Client has in common with HostClient reaches it.
func TestClientFieldsReachHostClient(t *testing.T) {
	c := new(Client)
	from := reflect.ValueOf(c).Elem()
	names := map[string]string{"MaxConnsPerHost": "MaxConns"}
	var common []string
	for i := range from.NumField() {
		field := from.Type().Field(i)
		if !field.IsExported() || field.Name == "ConfigureClient" {
			continue
		}
		common = append(common, field.Name)
		fill(t, from.Field(i))
	}
	var host *HostClient
	enough := errors.New("enough")
	c.ConfigureClient = func(hc *HostClient) error {
		host = hc
		return enough
	}
	if _, _, err := c.Get(nil, "https://h/"); err != enough {
		t.Fatal(err)
	}
	to := reflect.ValueOf(host).Elem()
	for _, name := range common {
		other := name
		if renamed, ok := names[name]; ok {
			other = renamed
		}
		got := to.FieldByName(other)
		if !got.IsValid() {
			t.Errorf("HostClient has no %s", other)
			continue
		}
		want := from.FieldByName(name)
		if want.Kind() == reflect.Func {
			if got.Pointer() != want.Pointer() {
				t.Errorf("%s is another function", name)
			}
		} else if !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s is %v, want %v", other, got, want)
		}
	}
	if len(common) < 25 || host.Addr != "h:443" || !host.IsTLS {
		t.Errorf("%d fields, %q, %v", len(common), host.Addr, host.IsTLS)
	}
}

// fill sets v to something that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Interface:
		v.Set(reflect.ValueOf(roundTripFunc(nil)))
	default:
		t.Fatalf("a field of kind %v: say how to fill it", v.Kind())
	}
}

// Ten thousand names that lead nowhere must not be kept for ever.
func TestClientForgetsHosts(t *testing.T) {
	c := &Client{Dial: func(string) (net.Conn, error) { return nil, errors.New("no") }}
	const names = 10000
	for i := range names {
		if _, _, err := c.Get(nil, fmt.Sprintf("http://h%d/", i)); err == nil {
			t.Fatal("no error")
		}
	}
	for _, hc := range c.hosts {
		hc.lastUse.Add(-int64(2 * time.Second))
	}
	later := 0
	eventually(t, "they are forgotten", func() bool {
		later++
		_, _, _ = c.Get(nil, fmt.Sprintf("http://later%d/", later))
		return len(c.hosts) <= maxIdleHosts
	})
}

// TestClientAddsHostsOnce: of two calls that add a host at once, the second gets the
// HostClient of the first, and counts.
func TestClientAddsHostsOnce(t *testing.T) {
	for _, isTLS := range []bool{false, true} {
		var c Client
		first, err := c.addHost("h", isTLS)
		second, again := c.addHost("h", isTLS)
		if err != nil || again != nil || first != second || first.pending.Load() != 2 || len(c.hostClients()) != 1 {
			t.Errorf("TLS %v: %v, %v, %d pending", isTLS, err, again, first.pending.Load())
		}
	}
}

// TestClientDropsUnused: which hosts are dropped, and when.
func TestClientDropsUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Client
		fill := func() (now int64) {
			c.hosts, c.tlsHosts = map[string]*HostClient{}, map[string]*HostClient{}
			now = clock.Nanos()
			for _, name := range []string{"old", "recent", "pending", "open"} {
				for _, hosts := range []map[string]*HostClient{c.hosts, c.tlsHosts} {
					hc := &HostClient{}
					hc.lastUse.Store(now - int64(time.Second) - 1)
					switch name {
					case "recent":
						hc.lastUse.Add(1)
					case "pending":
						hc.pending.Store(1)
					case "open":
						hc.pool.Admit()
					}
					hosts[name] = hc
				}
			}
			return now
		}
		now := fill()
		c.lastDrop = now - int64(time.Second) + 1
		if c.dropUnusedLocked(); len(c.hosts) != 4 || len(c.tlsHosts) != 4 {
			t.Errorf("a second time within a second: %v", c.hosts)
		}
		c.lastDrop--
		c.dropUnusedLocked()
		for _, hosts := range []map[string]*HostClient{c.hosts, c.tlsHosts} {
			if len(hosts) != 3 || hosts["old"] != nil || c.lastDrop != now {
				t.Errorf("%v, dropped at %d, want %d", hosts, c.lastDrop, now)
			}
		}
		// With one less than maxIdleHosts, nothing is dropped.
		for _, most := range []int{maxIdleHosts - 1, maxIdleHosts} {
			fill()
			c.lastDrop -= int64(time.Minute)
			for i := len(c.hosts) + len(c.tlsHosts); i < most; i++ {
				hc := &HostClient{}
				hc.pending.Store(1)
				c.hosts[fmt.Sprint(i)] = hc
			}
			if _, err := c.addHost("new", false); err != nil || (c.hosts["old"] == nil) != (most == maxIdleHosts) || c.hosts["new"] == nil {
				t.Errorf("with %d hosts: %v, old %v", most, err, c.hosts["old"])
			}
		}
	})
}
