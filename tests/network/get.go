// Fetches a page and prints it, for tests/network/programs.rs.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := (&http.Client{Transport: &http.Transport{}}).Get("http://" + os.Args[1] + "/")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	page, _ := io.ReadAll(answer.Body)
	fmt.Println(string(page))
}
