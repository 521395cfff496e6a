package prefork

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// OverRecovery says what the master does after too many deaths of workers.
type OverRecovery uint8

const (
	// OverRecoveryAuto is OverRecoveryDegrade in a Prefork of New whose RecoverThreshold
	// is the number that New sets, and OverRecoveryExit, as in fasthttp, in a literal or
	// if the program sets another RecoverThreshold.
	OverRecoveryAuto OverRecovery = iota
	// OverRecoveryExit ends the remaining workers in an orderly way. Then
	// ListenAndServe returns ErrOverRecovery.
	OverRecoveryExit
	// OverRecoveryDegrade keeps the remaining workers, and starts the others after a
	// pause. The pause doubles with each death beyond the threshold, from RecoverInterval
	// (at least 100 ms) to 30 s, or to 1 s after the death of the last worker that served.
	// Until all workers have served once, it does the same as OverRecoveryExit, so a
	// program that cannot start ends with an error.
	OverRecoveryDegrade
)

// String returns "exit" or "degrade".
func (o OverRecovery) String() string {
	if o > OverRecoveryDegrade {
		return fmt.Sprintf("OverRecovery(%d)", uint8(o))
	}
	return [...]string{"auto", "exit", "degrade"}[o]
}

// degrades reports whether the fleet goes on after too many deaths.
func (p *Prefork) degrades() bool {
	if p.OverRecovery == OverRecoveryAuto {
		return p.newThreshold > 0 && p.RecoverThreshold == p.newThreshold
	}
	return p.OverRecovery == OverRecoveryDegrade
}

// lead is ListenAndServe in the master.
func (p *Prefork) lead(addr string) error {
	switch {
	case runtime.GOOS == "windows" && !p.Reuseport:
		return ErrOnlyReuseportOnWindows
	case !p.Upgrade:
		return p.manage(addr, nil)
	case p.CommandProducer != nil || p.workersListen():
		return errUpgradeNeedsSockets
	case !IsManager():
		return p.hold()
	}
	h, err := connectHolder()
	if err != nil {
		return err
	}
	err = p.manage(addr, h)
	if err == nil || h.passOn(err) {
		return nil
	}
	return err
}

// manage is ListenAndServe in the master. With a holder it may continue what another
// master has begun.
func (p *Prefork) manage(addr string, h *holder) error {
	service, err := h.systemd()
	if err != nil {
		return err
	}
	config := p.config()
	if err := p.limit(&config); err != nil {
		return err
	}
	if p.LoadConfig != nil && !h.isManaged() { // otherwise the state has it
		if config.Configuration, err = p.LoadConfig(); err != nil {
			return err
		}
	}
	s, err := p.newSockets(addr)
	if err != nil {
		return err
	}
	var admin *admin
	goesOn := h.isManaged() // the service, even if this master fails: it needs the files of its sockets
	defer func() { leave(s, admin, goesOn) }()
	if !p.workersListen() {
		if err := s.inherit(service, config.Workers, config.Logger, !h.isManaged()); err != nil {
			return err
		}
		if err := p.bind(s, h); err != nil {
			return err
		}
		config.Sockets, config.SocketsClosed = s.open, s.letGo
		config.SharedSockets = !s.perSlot
	}
	if err := p.openPackets(&config, s.addresses, h.held()); err != nil {
		return err
	}
	memory, err := h.share(&config)
	if err != nil {
		return err
	}
	if err := h.begin(&config); err != nil {
		return err
	}
	if admin, err = p.openAdmin(h); err != nil {
		return err
	}
	publisher := newPublisher(&config, memory)
	notifier := newNotifier(service, &config)
	m, err := supervise.NewFrom(config, h.held())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go rotateTickets(ctx, memory)
	p.state.Store(&state{master: m, addrs: s.addresses(), admin: admin.addr()})
	notifier.master = m
	go notifier.run(ctx)
	go publisher.publish(ctx, m)
	go admin.serve()
	if h != nil {
		h.Held().Close()
		go h.signal(ctx, m)
	}
	err = m.Run(context.Background())
	if goesOn = errors.Is(err, supervise.ErrReplaced); goesOn {
		admin.yield()
	}
	h.ran(err)
	return publicError(err)
}

// leave closes what a master has opened. If the service continues without it, the sockets' files stay.
func leave(s *sockets, a *admin, goesOn bool) {
	if goesOn {
		s.keepFiles()
		a.yield()
	}
	a.close()
	s.close()
}

// bind makes sure that the addresses are free for s, or that the sockets of the master
// before listen on them.
func (p *Prefork) bind(s *sockets, h *holder) error {
	switch {
	case !h.isManaged():
		return s.probe()
	case h.held().HasClosed():
		return nil // the workers are ending
	}
	return s.resume(h.held().Sockets(0))
}

// workersListen reports whether the workers open their own sockets. With Reuseport,
// a custom producer need not pass files on. If the master then had a socket that
// no worker has, connections would wait in it for ever.
func (p *Prefork) workersListen() bool {
	return p.Reuseport && (p.CommandProducer != nil || !hasSlotSockets)
}

// config translates p's fields for the supervisor.
func (p *Prefork) config() supervise.Config {
	c := supervise.Config{
		Workers:          p.Workers,
		MaxWorkers:       p.MaxWorkers,
		Affinity:         p.Affinity,
		Env:              []string{markerVariable + "=" + markerValue},
		BootTimeout:      max(p.BootTimeout, 0),
		Soak:             p.soak(),
		GracePeriod:      p.grace(),
		DrainTimeout:     p.drainTimeout(),
		StopDelay:        max(p.ShutdownDelay, 0),
		OrphanGrace:      p.grace(),
		RecoverThreshold: p.RecoverThreshold,
		RecoverWindow:    p.RecoverWindow,
		RecoverInterval:  p.RecoverInterval,
		HangTimeout:      max(p.HangTimeout, 0),
		Inboxes:          p.server != nil,
		Logger:           p.logger(),
		Hooks: supervise.Hooks{
			OnStarted:    p.OnMasterReady,
			OnFleetReady: p.OnFleetReady,
			OnReload:     p.reload,
		},
	}
	if p.degrades() {
		c.OverRecovery = supervise.OverRecoveryDegrade
	}
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.MaxWorkers > 0 {
		c.MaxWorkers = max(c.MaxWorkers, c.Workers)
	}
	if p.OnChildSpawn != nil {
		c.Hooks.OnSpawn = func(_, pid int) error { return p.OnChildSpawn(pid) }
	}
	if p.OnChildRecover != nil {
		c.Hooks.OnRecover = func(_, oldPID, newPID int) { p.OnChildRecover(oldPID, newPID) }
	}
	if p.OnReopen != nil {
		c.Hooks.OnReopen = p.reopen
	}
	if p.CommandProducer != nil {
		c.Start = p.produce
	}
	return c
}

// reload returns the configuration of new workers. An error refuses the restart.
func (p *Prefork) reload() ([]byte, error) {
	if p.OnReload != nil {
		if err := p.OnReload(); err != nil {
			return nil, err
		}
	}
	if p.LoadConfig != nil {
		return p.LoadConfig()
	}
	return nil, nil
}

// reopen calls OnReopen.
func (p *Prefork) reopen() {
	if p.OnReopen == nil {
		return
	}
	if err := p.OnReopen(); err != nil {
		p.logger().Printf("cannot reopen logs: %v", err)
	}
}

// produce starts a worker with CommandProducer.
func (p *Prefork) produce(l supervise.Launch) (*exec.Cmd, error) {
	command, err := p.CommandProducer(l.Files)
	switch {
	case err != nil:
		return nil, err
	case command == nil:
		return nil, ErrCommandProducerNilCmd
	case command.Process == nil:
		return nil, ErrCommandProducerNotStarted
	}
	return command, nil
}
