package upgrade

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Hosts are the Hosts of a Server, and the Families that may take over connections of
// another one. A Memo names a Host by its place. The zero value is empty.
type Hosts struct {
	mu  sync.Mutex // held to add
	all atomic.Pointer[[]placedHost]

	named map[string]Family // by Name
}

type placedHost struct {
	Host
	family Family
	engine engine.Engine
}

// Of returns the Host of family on e, and makes it if there is none: for what newServer
// returns, which gets its place, and whether the Family is registered. It returns nil if
// there are MaxHosts.
func (h *Hosts) Of(family Family, e engine.Engine, newServer func(place uint64, isRegistered bool) Server) Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []placedHost
	if p := h.all.Load(); p != nil {
		all = *p
	}
	for i := range all {
		if all[i].family == family && all[i].engine == e {
			return all[i].Host
		}
	}
	if len(all) == MaxHosts {
		return nil
	}
	name := family.Name()
	host := family.NewHost(newServer(uint64(len(all)), name != "" && h.named[name] == family))
	grown := append(all[:len(all):len(all)], placedHost{Host: host, family: family, engine: e})
	h.all.Store(&grown)
	return host
}

// At returns the Host at a place.
func (h *Hosts) At(place uint64) Host { return (*h.all.Load())[place].Host }

// IsEmpty reports whether there is no Host yet.
func (h *Hosts) IsEmpty() bool { return h.all.Load() == nil }

// Register lets a server take over connections of a family that another server hands over:
// s is its sluice.ServerControl. It must be called before the server serves. The error says
// that the family has no name, or that another one has it.
func Register(s interface{ Value(key any) any }, family Family) error {
	return s.Value(Key{}).(*Hosts).register(family)
}

func (h *Hosts) register(family Family) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := family.Name()
	if other := h.named[name]; name == "" || len(name) > MaxName || other != nil && other != family {
		return fmt.Errorf("sluice: %q cannot be the name of a kind of connection: it is empty, too long, or taken", name)
	}
	if h.named == nil {
		h.named = map[string]Family{}
	}
	h.named[name] = family
	return nil
}

// Named returns the registered Family with a name, nil if there is none.
func (h *Hosts) Named(name string) Family {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.named[name]
}

// Families returns the registered Families.
func (h *Hosts) Families() (all []Family) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.named {
		all = append(all, f)
	}
	return all
}
