//go:build !linux

package prefork

import (
	"errors"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// limit fails if p asks for something: this system has no such users and limits.
func (p *Prefork) limit(*supervise.Config) error {
	if p.User != "" || p.Group != "" || p.NoNewPrivileges || p.MaxFiles != 0 {
		return errors.New("sluice: User, Group, NoNewPrivileges and MaxFiles work on Linux only")
	}
	return nil
}
