package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
)

// A fault replaces the bytes from..to of a file.
type fault struct {
	file     string
	place    // of its first byte
	from, to int
	with     string
	what     string // for the report
	guard    guard
}

// swapped has, for an operator, the one that a tired author writes in its place.
var swapped = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.AND_NOT: {token.AND},
	token.SHL: {token.SHR}, token.SHR: {token.SHL},
}

// findFaults lists every fault of the files that make up the package in dir on
// this system, tests excluded.
func findFaults(dir string) ([]fault, error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var found []fault
	for _, name := range pkg.GoFiles {
		f, err := fileFaults(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		found = append(found, f...)
	}
	return found, nil
}

// A finder collects the faults of one file.
type finder struct {
	file  string
	text  []byte
	fset  *token.FileSet
	lists map[ast.Stmt]bool // the statements that stand in a list of statements
	found []fault
}

func fileFaults(name string) ([]fault, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := finder{file: name, text: text, fset: token.NewFileSet(), lists: map[ast.Stmt]bool{}}
	file, err := parser.ParseFile(d.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		d.visit(n)
		return true
	})
	return d.found, nil
}

func (d *finder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, op := range swapped[n.Op] {
			d.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op.String())
			d.guardOperator(n)
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			d.add(n.OpPos, n.OpPos+1, "")
			d.guard(n, "("+isOn+" != ", ")")
		}
	case *ast.IfStmt:
		d.add(n.Cond.Pos(), n.Cond.End(), "!("+d.source(n.Cond)+")")
		d.guard(n.Cond, isOn+" != (", ")")
	case *ast.BlockStmt:
		d.list(n.List)
	case *ast.CaseClause:
		d.list(n.Body)
	case *ast.CommClause:
		d.list(n.Body)
	case *ast.BasicLit:
		d.literal(n)
	case *ast.Ident:
		switch n.Name {
		case "true":
			d.add(n.Pos(), n.End(), "false")
			d.guard(n, "("+isOn+" != ", ")")
		case "false":
			d.add(n.Pos(), n.End(), "true")
			d.guard(n, "("+isOn+" != ", ")")
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			d.remove(n)
		}
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt:
		d.remove(n.(ast.Stmt))
	case *ast.ReturnStmt:
		d.result(n)
	}
}

// literal moves a number by one.
func (d *finder) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	if v, err := strconv.ParseUint(n.Value, 0, 63); err == nil {
		more := strconv.FormatUint(v+1, 10)
		d.add(n.Pos(), n.End(), more)
		d.guard(n, "faultChoose("+isOn+", "+more+", ", ")")
	}
}

// result has an error forgotten.
func (d *finder) result(n *ast.ReturnStmt) {
	for _, r := range n.Results {
		if id, ok := r.(*ast.Ident); ok && len(id.Name) >= 3 && (id.Name == "err" || id.Name[:3] == "err" || id.Name[:3] == "Err") {
			d.add(r.Pos(), r.End(), "nil")
			if d.lists[n] && d.isLine(n) {
				d.guard(n, "if "+isOn+" { "+d.changed(n)+" }; ", "")
			}
		}
	}
}

func (d *finder) remove(n ast.Stmt) {
	d.add(n.Pos(), n.End(), "")
	if branch, ok := n.(*ast.BranchStmt); d.lists[n] && !(ok && branch.Tok == token.FALLTHROUGH) {
		d.guard(n, "if !"+isOn+" { ", " }")
	}
}

func (d *finder) source(n ast.Node) string {
	return string(d.text[d.offset(n.Pos()):d.offset(n.End())])
}

func (d *finder) offset(p token.Pos) int { return d.fset.Position(p).Offset }

func (d *finder) add(from, to token.Pos, with string) {
	at := d.fset.Position(from)
	f := fault{file: d.file, place: place{at.Line, at.Column}, from: at.Offset, to: d.offset(to), with: with}
	old := string(d.text[f.from:f.to])
	if with == "" {
		f.what = fmt.Sprintf("without %q", old)
	} else {
		f.what = fmt.Sprintf("%q, not %q", with, old)
	}
	d.found = append(d.found, f)
}

// apply returns the file's text with the fault in it.
func (f *fault) apply() ([]byte, error) {
	text, err := os.ReadFile(f.file)
	if err != nil {
		return nil, err
	}
	return append(append(append([]byte{}, text[:f.from]...), f.with...), text[f.to:]...), nil
}
