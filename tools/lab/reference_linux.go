package lab

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/lab/cli"
	"github.com/sluicehttp/sluice/tools/lab/internal/reference"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
)

// newLabReferenceCommand returns "sluice lab reference".
func newLabReferenceCommand() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "reference",
		Short: "Run 6_multiple_server as a program in C",
		Long: `reference runs what 6_multiple_server does as a program in C at both ends, which
only waits, receives and sends: in as many processes, over the same addresses, with
the same requests on their way. It tells what a machine can do at best. It needs a
C compiler.`,
		Example: `  sluice lab reference --conns 1000000 --out results/c`,
		Args:    cli.NoArguments,
	}
	flags := cmd.Flags()
	f.set = flags
	flags.IntVar(&f.conns, "conns", 0, "connections (10000)")
	flags.Var(cli.SecondsOf(&f.options.Duration, defaultLabDuration), "duration", "how long requests are sent; a sweep that has begun is carried to its end (0: one sweep)")
	flags.StringVar(&f.out, "out", "", "`FOLDER` for result.json, result.md and plots; what an earlier run has left there is overwritten")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := f.scenarios("6")
		if err != nil {
			return err
		}
		if err := enterNetwork(f.options.System); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), err)
		}
		if err := f.checkAll(all); err != nil {
			return err
		}
		f.options.Scenario = all[0]
		return f.runReference(cmd)
	}
	return cmd
}

func (f *labFlags) runReference(cmd *cobra.Command) error {
	signals := watchSignals(cmd.ErrOrStderr())
	defer signals.stop()
	p, err := f.options.Plan()
	if err != nil {
		return err
	}
	files := f.options.System
	head, load := header(files), files.Load()
	r, err := reference.Run(signals, &p, f.options.Duration, files)
	if err != nil {
		if reason := signals.reason(); reason != nil {
			return reason
		}
		return err
	}
	r.Header, r.Header.LoadBefore = head, load
	fmt.Fprint(cmd.OutOrStdout(), r.Markdown())
	if f.out != "" {
		if err := r.Save(f.out); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "the report is %s\n", result.ResultFile(f.out))
	}
	if n := r.Errors(); n > 0 {
		return fmt.Errorf("%d errors", n)
	}
	return nil
}
