//go:build !linux

package prefork

import (
	"context"
	"errors"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// takeHolderSocket returns 0: there are no managers on these systems.
func takeHolderSocket() int { return 0 }

func connectHolder() (*holder, error) { return nil, errUpgradeNeedsSockets }

func (h *holder) signal(context.Context, *supervise.Master) {}

// hold returns an error: it works on Linux only.
func (p *Prefork) hold() error { return errors.Join(errUpgradeNeedsSockets, errors.ErrUnsupported) }
