package main

import (
	"errors"

	"github.com/sluicehttp/sluice/prefork"
	"github.com/spf13/pflag"
)

// privileges are what workers may do.
type privileges struct {
	user, group     string
	noNewPrivileges bool
	maxFiles        uint64
}

// addFlags adds the flags of privileges.
func (p *privileges) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.user, "user", "", "with --prefork, as root: workers run as `USER`, a name or a number")
	flags.StringVar(&p.group, "group", "", "with --prefork, as root: workers run in `GROUP`, and not in the user's first one")
	flags.BoolVar(&p.noNewPrivileges, "no-new-privileges", false, "with --prefork: workers gain no privileges by executing a file")
	flags.Uint64Var(&p.maxFiles, "max-files", 0, "with --prefork: descriptors that each process may have, `N`; 0: as many as before")
}

// check fails if there are no workers for the flags.
func (p *privileges) check(workers workerCount) error {
	if *p != (privileges{}) && workers == 0 {
		return errors.New("--user, --group, --no-new-privileges and --max-files are for workers: they need --prefork")
	}
	return nil
}

// apply gives the workers of a fleet the privileges.
func (p *privileges) apply(to *prefork.Prefork) {
	to.User, to.Group, to.NoNewPrivileges, to.MaxFiles = p.user, p.group, p.noNewPrivileges, p.maxFiles
}
