package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// newManCommand returns "sluice man". The generator of package cobra/doc reads help as
// Markdown, which joins the lines of our lists.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `man writes a manual page for each command into DIR, which it makes if need be:
sluice.1, sluice-serve.1 and so on. "man -l DIR/sluice.1" shows one.`,
		Example:           "  sluice man /usr/local/share/man/man1",
		Args:              cli.OneArgument("DIR"),
		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManPages(cmd.Root(), args[0])
		},
	}
}

// writeManPages writes the pages of a command and those below it.
func writeManPages(cmd *cobra.Command, dir string) error {
	err := os.WriteFile(filepath.Join(dir, manName(cmd)+".1"), manPage(cmd), 0o644)
	for _, sub := range cmd.Commands() {
		if err == nil && isInManual(sub) {
			err = writeManPages(sub, dir)
		}
	}
	return err
}

// isInManual reports whether a command has a page. Each page says what "help" would.
func isInManual(cmd *cobra.Command) bool { return cmd.IsAvailableCommand() && cmd.Name() != "help" }

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the page of a command in the macros of man(7).
func manPage(cmd *cobra.Command) []byte {
	var page bytes.Buffer
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	version, _, _ := strings.Cut(cmd.Root().Version, ",")
	fmt.Fprintf(&page, ".TH %s 1 \"\" %s\n", roffQuote(strings.ToUpper(manName(cmd))), roffQuote("sluice "+version))
	fmt.Fprintf(&page, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&page, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	page.WriteString(".SH DESCRIPTION\n")
	if cmd.Long != "" {
		roffText(&page, cmd.Long)
	} else {
		roffText(&page, cmd.Short+".")
	}
	manCommands(&page, cmd)
	manFlags(&page, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(&page, "OPTIONS OF ALL COMMANDS OF "+strings.ToUpper(parentName(cmd)), cmd.InheritedFlags())
	if cmd.Example != "" {
		page.WriteString(".SH EXAMPLES\n")
		roffText(&page, cmd.Example)
	}
	if cmd.HasParent() {
		fmt.Fprintf(&page, ".SH SEE ALSO\n.BR %s (1)\n", roff(manName(cmd.Parent())))
	}
	return page.Bytes()
}

func parentName(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return cmd.Parent().Name()
}

func manCommands(page *bytes.Buffer, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	page.WriteString(".SH COMMANDS\n")
	for _, sub := range cmd.Commands() {
		if isInManual(sub) {
			fmt.Fprintf(page, ".TP\n.BR %s (1)\n%s\n", roff(manName(sub)), roff(sub.Short))
		}
	}
}

func manFlags(page *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(page, ".SH %s\n", roffQuote(title))
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		page.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(page, "\\fB%s\\fR, ", roff("-"+f.Shorthand))
		}
		fmt.Fprintf(page, "\\fB%s\\fR", roff("--"+f.Name))
		switch {
		case value == "":
		case f.NoOptDefVal != "":
			fmt.Fprintf(page, "[=\\fI%s\\fR]", roff(value))
		default:
			fmt.Fprintf(page, " \\fI%s\\fR", roff(value))
		}
		fmt.Fprintf(page, "\n%s", roff(usage))
		switch f.DefValue {
		case "", "0", "false", "[]":
		default:
			fmt.Fprintf(page, " (default %s)", roff(f.DefValue))
		}
		page.WriteString("\n")
	})
}

// roffText writes text as --help shows it: paragraphs are filled anew, and lines that begin
// with a space stay as they are.
func roffText(page *bytes.Buffer, text string) {
	isVerbatim := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			page.WriteString(".PP\n")
			continue
		}
		wasVerbatim := isVerbatim
		isVerbatim = line[0] == ' ' || line[0] == '\t'
		if isVerbatim && !wasVerbatim {
			page.WriteString(".nf\n")
		} else if !isVerbatim && wasVerbatim {
			page.WriteString(".fi\n")
		}
		page.WriteString(roff(line) + "\n")
	}
	if isVerbatim {
		page.WriteString(".fi\n")
	}
}

// roff returns text that roff prints as it stands, in one line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text // not a request
	}
	return text
}

// roffQuote returns text as one argument of a macro.
func roffQuote(text string) string {
	return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"`
}
