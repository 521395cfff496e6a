package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestManPages: each command has a page with all that its help says, and a line that is
// no macro of ours begins with neither a dot nor an apostrophe.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	root := newRootCommand()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	request := regexp.MustCompile(`^\.(TH|SH|TP|PP|B|BR|nf|fi)( |$)`)
	pages := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		pages++
		page := string(text)
		for line := range strings.Lines(page) {
			if strings.ContainsAny(line[:1], ".'") && !request.MatchString(strings.TrimSuffix(line, "\n")) {
				t.Errorf("%s: %q", name, line)
			}
		}
		says := func(what string) {
			if !strings.Contains(page, roff(what)) {
				t.Errorf("%s says nothing of %q", name, what)
			}
		}
		says(cmd.UseLine())
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			says(strings.TrimSuffix(line, "\n"))
		}
		flag := func(f *pflag.Flag) {
			_, usage := pflag.UnquoteUsage(f)
			says("--" + f.Name)
			says(usage)
		}
		cmd.LocalFlags().VisitAll(flag)
		cmd.InheritedFlags().VisitAll(flag)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				check(sub)
			}
		}
	}
	check(root)
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if pages < 15 || pages != len(files) {
		t.Errorf("%d pages, %d files", pages, len(files))
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff does not look at the pages: it is not here")
	}
	if out, err := exec.Command(groff, append([]string{"-man", "-ww", "-z", "-Tutf8"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRoff: text stays what it is.
func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		".hidden": `\&.hidden`, "'x'": `\&'x'`, `a\b`: `a\eb`, "a-b": `a\-b`, "x.": "x.",
	} {
		if got := roff(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
