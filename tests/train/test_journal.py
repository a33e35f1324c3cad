from fullrank.train.journal import Journal, read_curve, read_rows


def test_lines_are_kept_exactly(tmp_path):
    file = tmp_path / "metrics.csv"
    journal = Journal(file, 0)
    values = [0.1 + 0.2, 1e-300, float("nan")]
    for epoch, value in enumerate(values):
        journal.add(epoch, {"lr": 0.1, "loss": value})
    assert [str(value) for value in read_curve(file, "loss")] == list(map(str, values))


def test_resuming_cuts_back_to_the_saved_epochs(tmp_path):
    file = tmp_path / "metrics.csv"
    journal = Journal(file, 0)
    for epoch in range(5):
        journal.add(epoch, {"loss": epoch / 3})
    complete = file.read_bytes()
    resumed = Journal(file, 2)
    assert [row["epoch"] for row in read_rows(file)] == ["0", "1"]
    for epoch in range(2, 5):
        resumed.add(epoch, {"loss": epoch / 3})
    assert file.read_bytes() == complete


def test_half_a_line_of_a_killed_process_is_dropped(tmp_path):
    file = tmp_path / "metrics.csv"
    journal = Journal(file, 0)
    journal.add(0, {"loss": 1.0})
    journal.add(1, {"loss": 2.0})
    file.write_bytes(file.read_bytes()[:-3])
    assert len(read_rows(file)) == 1
    Journal(file, 1).add(1, {"loss": 2.0})
    assert read_curve(file, "loss") == [1.0, 2.0]
