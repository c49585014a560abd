package dir_test

func child() {}
