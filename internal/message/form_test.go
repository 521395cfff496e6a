package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

const formText = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n2\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"z\"\r\n\r\n3\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\nContent-Type: text/x\r\n\r\ncontent\r\n--b--\r\n"

// TestWriteForm: fields are sorted by name, then files are; what was read is written (RFC 7578).
func TestWriteForm(t *testing.T) {
	form, err := ReadForm(strings.NewReader(formText+"epilogue"), "b")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteForm(&out, form, "b"); err != nil || out.String() != formText {
		t.Errorf("%v, %q, want %q", err, out.String(), formText)
	}
	if FilesOf(form) != nil {
		t.Error("a small form has temporary files")
	}
}

// TestWriteFormFails with the error of the writer, of a file, or of the boundary.
func TestWriteFormFails(t *testing.T) {
	form, err := ReadForm(strings.NewReader(formText), "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteForm(io.Discard, form, ""); err != errEmptyBoundary {
		t.Errorf("an empty boundary: %v", err)
	}
	if err := WriteForm(io.Discard, form, "a\nb"); err == nil || !strings.HasPrefix(err.Error(), "sluice: ") {
		t.Errorf("an invalid boundary: %v", err)
	}
	failure := errors.New("failure")
	for _, room := range []int{0, 60, 220, len(formText) - 30, len(formText) - 1} {
		if err := WriteForm(&limitedWriter{room, failure}, form, "b"); err != failure {
			t.Errorf("after %d bytes: %v", room, err)
		}
	}
	unopened := &multipart.Form{File: map[string][]*multipart.FileHeader{"f": {{Filename: "n", Header: textproto.MIMEHeader{}}}}}
	if err := WriteForm(io.Discard, unopened, "b"); err == nil || !strings.HasPrefix(err.Error(), `sluice: cannot open form file "n": `) {
		t.Errorf("a file that cannot be opened: %v", err)
	}
}

// limitedWriter fails with err after room bytes.
type limitedWriter struct {
	room int
	err  error
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// TestReadFormFails with the error of the reader rather than that of a malformed form.
func TestReadFormFails(t *testing.T) {
	failure := errors.New("failure")
	for _, n := range []int{0, 10, 60, len(formText) - 10, len(formText)} {
		form, err := ReadForm(io.MultiReader(strings.NewReader(formText[:n]), iotest.ErrReader(failure)), "b")
		if err != failure || form != nil {
			t.Errorf("after %d bytes: %v, %v", n, form, err)
		}
	}
	form, err := ReadForm(strings.NewReader(formText[:60]), "b")
	if err == nil || form != nil {
		t.Errorf("a form that ends early: %v, %v", form, err)
	}
}

// TestFormOutOfMemory: larger forms have temporary files, until they are removed.
func TestFormOutOfMemory(t *testing.T) {
	head := strings.TrimSuffix(formText, "content\r\n--b--\r\n")
	large := strings.Repeat("x", 4<<20+1)
	form, err := ReadForm(strings.NewReader(head+large+"\r\n--b--\r\n"), "b")
	if err != nil {
		t.Fatal(err)
	}
	header := form.File["f"][0]
	path := filepath.Join(t.TempDir(), "saved")
	if err := SaveFormFile(header, path); err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(path); err != nil || string(saved) != large {
		t.Errorf("%v, %d bytes are saved, want %d", err, len(saved), len(large))
	}
	if open := openFiles("multipart-"); len(open) > 0 {
		t.Errorf("%q are open", open)
	}
	files := FilesOf(form)
	for range 2 { // the second call does nothing
		files.Remove()
	}
	if _, err := header.Open(); err == nil {
		t.Error("the file is there after Remove")
	}
	if err := SaveFormFile(header, path+"2"); err == nil {
		t.Error("a file that was removed is saved")
	}
	if _, err := os.Stat(path + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that could not be opened leaves one: %v", err)
	}
}

// TestSaveFormFileFails if the file cannot be created.
func TestSaveFormFileFails(t *testing.T) {
	form, err := ReadForm(strings.NewReader(formText), "b")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "absent", "file")
	if err := SaveFormFile(form.File["f"][0], path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if got := fmt.Sprint(form.Value); got != "map[a:[1 2] z:[3]]" {
		t.Errorf("the fields are %s", got)
	}
}

// TestFormInMemory: 4 MiB of files are.
func TestFormInMemory(t *testing.T) {
	head := strings.TrimSuffix(formText, "content\r\n--b--\r\n")
	form, err := ReadForm(strings.NewReader(head+strings.Repeat("x", 4<<20)+"\r\n--b--\r\n"), "b")
	if err != nil {
		t.Fatal(err)
	}
	if files := FilesOf(form); files != nil {
		t.Errorf("%+v", files.copies)
	}
}

// TestFilesOfForgottenForm: they are removed when nothing refers to any of its headers.
func TestFilesOfForgottenForm(t *testing.T) {
	const part = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\n\r\n"
	form, err := ReadForm(strings.NewReader(part+"small\r\n"+part+strings.Repeat("x", 4<<20+1)+"\r\n--b--\r\n"), "b")
	if err != nil {
		t.Fatal(err)
	}
	small := form.File["f"][0]
	file, err := form.File["f"][1].Open()
	if err != nil {
		t.Fatal(err)
	}
	path := file.(*os.File).Name()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	files := FilesOf(form)
	form = nil
	for range 3 {
		runtime.GC()
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("a header is in use: %v", err)
		}
	}
	runtime.KeepAlive(small)
	for {
		runtime.GC()
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			break
		}
		runtime.Gosched()
	}
	if !files.areRemoved.Load() {
		t.Error("they are not known to be removed")
	}
}

// openFiles returns the files of this process with a text in their names, as far as the system
// tells.
func openFiles(text string) (names []string) {
	const folder = "/proc/self/fd"
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if name, err := os.Readlink(filepath.Join(folder, entry.Name())); err == nil && strings.Contains(name, text) {
			names = append(names, name)
		}
	}
	return names
}

// TestSaveUnreadableFormFile: the error of reading is returned, and no part of a file is left.
func TestSaveUnreadableFormFile(t *testing.T) {
	head := strings.TrimSuffix(formText, "content\r\n--b--\r\n")
	form, err := ReadForm(strings.NewReader(head+strings.Repeat("x", 4<<20+1)+"\r\n--b--\r\n"), "b")
	if err != nil {
		t.Fatal(err)
	}
	header := form.File["f"][0]
	file, err := header.Open()
	if err != nil {
		t.Fatal(err)
	}
	stored, saved := file.(*os.File).Name(), filepath.Join(t.TempDir(), "saved")
	if err := errors.Join(file.Close(), os.Remove(stored), os.Mkdir(stored, 0o700)); err != nil { // a folder can be opened, and not read
		t.Fatal(err)
	}
	defer os.Remove(stored)
	if err := SaveFormFile(header, saved); err == nil {
		t.Error("a folder is saved")
	}
	if _, err := os.Stat(saved); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part is left: %v", err)
	}
}
