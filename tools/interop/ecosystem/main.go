// Command ecosystem runs the test suites of modules that are built on fasthttp
// with Sluice in its place, and beside that with the fasthttp that they ask for.
//
// contrib/fasthttp is named as fasthttp and passes on what Sluice exports. A copy
// of each module requires it. The program downloads the modules and takes half
// an hour for all: it is run by hand.
//
//	go -C tools/interop run ./ecosystem                 # all, in a network without a way out
//	go -C tools/interop run ./ecosystem router fiber/v2 # those whose path has one of these
//	go -C tools/interop run ./ecosystem -portable       # fasthttp's own tests of its exported API
//	go -C tools/interop run ./ecosystem -shim           # writes contrib/fasthttp from Sluice's exported API
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ecosystem:", err)
		os.Exit(1)
	}
}

func run() error {
	source := flag.String("sluice", "../..", "folder of Sluice's root module")
	work := flag.String("work", filepath.Join(os.TempDir(), "ecosystem"), "folder for the modules' copies and the tests' output; is kept")
	timeout := flag.Duration("timeout", 3*time.Minute, "for the tests of one package")
	isolate := flag.Bool("isolate", true, "run the tests as the user with id 65534, in a network that has loopback only; needs Linux, and to be root")
	only := flag.Bool("shim", false, "write the shim, "+shimFolder+", and no more")
	portable := flag.Bool("portable", false, "run fasthttp's own tests that need its exported names only; "+portableList+" has the differences")
	list := flag.Bool("list", false, "list every test that differs, also those with a reason")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	folder, err := filepath.Abs(*source)
	if err != nil {
		return err
	}
	place, err := filepath.Abs(*work)
	if err != nil {
		return err
	}
	shimmed := filepath.Join(folder, filepath.FromSlash(shimFolder))
	s := shim{module: shimModule, origin: ourModule, source: folder, packages: shimPackages}
	if *only {
		return s.write(shimmed)
	}
	r := runner{shim: shimmed, source: folder, work: place, timeout: *timeout, isolate: *isolate}
	if *portable {
		return r.runPortable(ctx)
	}
	return runAll(ctx, &r, flag.Args(), *list)
}

// runAll prints a line for each suite as soon as it is through. It fails if
// there is a difference without a reason.
func runAll(ctx context.Context, r *runner, names []string, list bool) error {
	unexplained := 0
	var notes strings.Builder
	fmt.Print(tableHead)
	for _, s := range suites() {
		if !selected(s.Module, names) {
			continue
		}
		o := r.run(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Print(o.row())
		unexplained += o.explain(&notes, list)
	}
	fmt.Print("\n", notes.String())
	if unexplained > 0 {
		return fmt.Errorf("%d differences without a reason", unexplained)
	}
	return nil
}

func selected(module string, names []string) bool {
	for _, name := range names {
		if strings.Contains(module, name) {
			return true
		}
	}
	return len(names) == 0
}
