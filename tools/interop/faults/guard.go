package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A guard is another way to write a fault: it puts text before and after the bytes from..to
// of the file, so that the fault is there only while it is switched on. Many faults are then
// compiled together. Where from is to, there is no such way.
type guard struct {
	from, to      int
	before, after string
}

// isOn stands, in a guard, for whether its fault is on.
const isOn = "\x00"

// switchVariable has the number of the fault that is on, in the environment of tests.
const switchVariable = "SLUICE_FAULT"

// guards is what the package with guarded faults has in a file of its own.
const guards = `package %s

import (
	"os"
	"strconv"
)

var faultOn, _ = strconv.Atoi(os.Getenv("` + switchVariable + `"))

func faultChoose[T any](isOn bool, faulty, right T) T {
	if isOn {
		return faulty
	}
	return right
}
`

// guard makes the fault that was found last one that can be switched on.
func (d *finder) guard(n ast.Node, before, after string) {
	d.found[len(d.found)-1].guard = guard{d.offset(n.Pos()), d.offset(n.End()), before, after}
}

// guardOperator is guard for a wrong operator.
func (d *finder) guardOperator(n *ast.BinaryExpr) {
	if !d.isLine(n) {
		return
	}
	switch n.Op {
	case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		d.guard(n, "("+isOn+" && ("+d.changed(n)+") || !"+isOn+" && (", "))")
	case token.MUL, token.SHL, token.SHR: // what is not wanted may panic
	default:
		if isPure(n) {
			d.guard(n, "faultChoose("+isOn+", "+d.changed(n)+", ", ")")
		}
	}
}

// changed returns the source of n with the fault that was found last.
func (d *finder) changed(n ast.Node) string {
	f := &d.found[len(d.found)-1]
	return string(d.text[d.offset(n.Pos()):f.from]) + f.with + string(d.text[f.to:d.offset(n.End())])
}

// isLine reports whether n can be written twice without a change of the lines after it.
func (d *finder) isLine(n ast.Node) bool {
	return !strings.Contains(d.source(n), "\n")
}

// isPure reports whether n may be evaluated twice.
func isPure(n ast.Expr) bool {
	pure := true
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.Ident)
			pure = pure && ok && strings.Contains(" len cap min max int int64 uint64 uint32 ", " "+f.Name+" ")
		case *ast.UnaryExpr:
			pure = pure && n.Op != token.ARROW
		}
		return pure
	})
	return pure
}

func (d *finder) list(statements []ast.Stmt) {
	for _, s := range statements {
		d.lists[s] = true
	}
}

// A batch is faults that are compiled together. The number of a fault is its place, plus 1.
type batch []*fault

// gather returns those of faults that can be compiled together: their texts do not overlap.
func gather(faults []fault) (b batch) {
	for i := range faults {
		if f := &faults[i]; f.guard.to > f.guard.from && !b.overlaps(f) {
			b = append(b, f)
		}
	}
	return b
}

func (b batch) overlaps(f *fault) bool {
	for _, g := range b {
		if f.file == g.file && f.guard.from < g.guard.to && g.guard.from < f.guard.to {
			return true
		}
	}
	return false
}

// number returns what switches f on, 0 if f is not in b.
func (b batch) number(f *fault) int {
	for i, g := range b {
		if f.file == g.file && f.from == g.from && f.to == g.to && f.with == g.with {
			return i + 1
		}
	}
	return 0
}

// files returns the sources with the faults of b, by the names of the files of the package in
// dir, and one more file.
func (b batch) files(dir, name string) (map[string][]byte, error) {
	files := map[string][]byte{filepath.Join(dir, "faults_guards.go"): fmt.Appendf(nil, guards, name)}
	added := map[string]map[int]string{} // by file and place
	for i, f := range b {
		if added[f.file] == nil {
			added[f.file] = map[int]string{}
		}
		on := "(faultOn == " + strconv.Itoa(i+1) + ")"
		at := added[f.file]
		at[f.guard.from] += strings.ReplaceAll(f.guard.before, isOn, on) // what begins here comes after what ends here
		at[f.guard.to] = strings.ReplaceAll(f.guard.after, isOn, on) + at[f.guard.to]
	}
	for file, at := range added {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var faulty bytes.Buffer
		for i := range len(text) + 1 {
			faulty.WriteString(at[i])
			if i < len(text) {
				faulty.WriteByte(text[i])
			}
		}
		files[file] = faulty.Bytes()
	}
	return files, nil
}

// without returns b without the faults in the lines that the compiler complains of.
func (b batch) without(complaints []byte) (rest batch) {
	for _, f := range b {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return nil
		}
		first := 1 + bytes.Count(text[:f.guard.from], []byte("\n"))
		last := 1 + bytes.Count(text[:f.guard.to], []byte("\n"))
		isWrong := false
		for line := first; line <= last; line++ {
			isWrong = isWrong || bytes.Contains(complaints, []byte(filepath.Base(f.file)+":"+strconv.Itoa(line)+":"))
		}
		if !isWrong {
			rest = append(rest, f)
		}
	}
	return rest
}
