package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// An interruption is what signals ask for: the first ends everything in order, the
// second at once.
type interruption struct {
	context.Context               // the first has come when it is done
	hurry           chan struct{} // the second has come when it is closed
	stop            func()
}

// watchSignals returns one for the signals that come until its stop is called. The
// first is answered on progress.
func watchSignals(progress io.Writer) *interruption {
	ctx, cancel := context.WithCancel(context.Background())
	i := &interruption{Context: ctx, hurry: make(chan struct{})}
	wanted := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // else it is to go on without its terminal (nohup)
		wanted = append(wanted, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, len(wanted))
	signal.Notify(signals, wanted...)
	over := make(chan struct{})
	i.stop = func() {
		signal.Stop(signals)
		close(over)
		cancel()
	}
	go func() {
		select {
		case <-signals:
			if isTerminal(progress) { // there may be a bar
				fmt.Fprintln(progress)
			}
			fmt.Fprintln(progress, "interrupted: all processes are told to end; once more (Ctrl-C) kills them")
			cancel()
		case <-over:
			return
		}
		select {
		case <-signals:
			close(i.hurry)
		case <-over:
		}
	}()
	return i
}

// reason returns what an interrupted command ends with, nil if it was not interrupted.
func (i *interruption) reason() error {
	if i.Err() == nil {
		return nil
	}
	select {
	case <-i.hurry:
		return errors.New("interrupted; all processes have been killed")
	default:
		return errors.New("interrupted; all processes have ended")
	}
}
