"""The panel that shows what is inside a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QGuiApplication, QImage, QPixmap
from qtpy.QtWidgets import (
    QBoxLayout,
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)
from superqt import QFlowLayout

from napari_decant.gui._desk import Desk
from napari_decant.gui._filemap import FileMap
from napari_decant.gui._intake import Intake, beside
from napari_decant.gui._row import Row
from napari_decant.gui._table import Table
from napari_decant.gui._widgets import Action, Notice, breakable, label, side_button
from napari_decant.gui.jobs import Inspection, Job, Picture, Task

__all__ = ["InspectPanel"]

_PICTURE = 15


class InspectPanel(Intake):
    """Drop an archive, a TIFF or an image: see what is in it.

    Parameters
    ----------
    desk : Desk
    parent : QWidget, optional
    """

    KEY = "inspect"
    TITLE = "Inspect"
    TIP = "See what is inside an archive or an image"
    DROP = (
        "Drop an archive, a TIFF or an OME-Zarr here",
        "See its picture, what it says of itself, and where its bytes are.\nIt is only read.",
        "Drop another file here",
    )
    FILTER = "Archives and images (*.zarr.zip *.ozx *.tif *.tiff *.btf *.lsm *.stk *.svs);;All files (*)"

    progressed = Signal()

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self.shown: Inspection | None = None
        self._job: Job | None = None
        self._notice: Notice | None = None
        self._build()
        desk.bridge.changed.connect(self._on_job)
        self.refresh()

    def _build(self) -> None:
        gap = self.fontMetrics().height() // 2
        self.chooser = QComboBox()
        self.chooser.setToolTip("Which of the files to show")
        self.chooser.setAccessibleName("File")
        self.chooser.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.chooser.setMinimumContentsLength(12)
        self.chooser.currentIndexChanged.connect(self._choose)
        form = QWidget()
        form.setObjectName("decantForm")  # it looks like the fields of the other panels
        line = QHBoxLayout(form)
        line.setContentsMargins(0, 0, 0, 0)
        line.addWidget(self.chooser)
        self.picture = QLabel()
        self.picture.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        self.picture.setAccessibleName("Picture")
        self.facts = QWidget()
        self._grid = QGridLayout(self.facts)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setColumnStretch(1, 1)
        self._grid.setHorizontalSpacing(2 * gap)
        self.map = FileMap(self.look)
        self.members = Table(self.look, (("name", "Files inside"), ("what", "sha256"), ("size", "Size")))
        self.members.setToolTip("The originals inside, each with its sha256")
        self.copy_button = side_button(
            self.look, Action("&Copy as text", "copy", "Copy everything shown here", self.copy)
        )
        self.open_button = side_button(
            self.look, Action("Open in &napari", "open", "Look at the image", self._open)
        )
        self.verify_button = side_button(
            self.look, Action("&Verify", "verify", "Go to Verify with it", lambda: self._hand("verify"))
        )
        self.restore_button = side_button(
            self.look, Action("&Restore", "restore", "Go to Restore with it", lambda: self._hand("restore"))
        )
        page = QFrame()
        page.setObjectName("decantCard")
        self._top = QHBoxLayout()
        self._top.addWidget(self.picture, 0)
        self._top.addWidget(self.facts, 1)
        self._top.setSpacing(2 * gap)
        inside = QVBoxLayout(page)
        inside.setContentsMargins(2 * gap, gap, 2 * gap, gap)
        inside.addLayout(self._top)
        inside.addWidget(self.map)
        inside.addWidget(self.members, 1)
        inside.addStretch()
        self.page = QScrollArea()
        self.page.setWidgetResizable(True)
        self.page.setFrameShape(QFrame.Shape.NoFrame)
        self.page.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.page.setWidget(page)
        buttons = QWidget()
        self._buttons = QFlowLayout(buttons)
        self._buttons.setContentsMargins(0, 0, 0, 0)
        for button in (self.copy_button, self.verify_button, self.restore_button, self.open_button):
            self._buttons.addWidget(button)
        box = QVBoxLayout(self)
        box.setContentsMargins(gap, gap, gap, gap)
        box.setSpacing(gap)
        box.addLayout(self._news)
        box.addWidget(self.drop)
        box.addWidget(form)
        box.addWidget(self.page, 1)
        box.addWidget(buttons)
        self._box = box

    def set_narrow(self, narrow: bool) -> None:
        """See `Intake.set_narrow`."""
        super().set_narrow(narrow)
        direction = QBoxLayout.Direction
        self._top.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)
        self.members.set_narrow(narrow)

    def refresh(self) -> None:
        """See `Intake.refresh`."""
        shown = self.shown is not None
        self.page.setVisible(shown)
        self.drop.set_strip(shown)
        self._box.setStretch(1, 0 if shown else 1)
        self.chooser.setVisible(self.chooser.count() > 1)
        archive = shown and self.shown is not None and self.shown.kind == "archive"
        self.copy_button.setVisible(shown)
        self.open_button.setVisible(shown and self.desk.open_images is not None)
        self.verify_button.setVisible(archive)
        self.restore_button.setVisible(archive)

    def add(self, paths: Sequence[Path]) -> None:
        """Show files; the first new one at once, the others on choice."""
        known = [self.chooser.itemData(i) for i in range(self.chooser.count())]
        for path in paths:
            if str(path) not in known:
                self.chooser.addItem(path.name, str(path))
                self.chooser.setItemData(self.chooser.count() - 1, str(path), Qt.ItemDataRole.ToolTipRole)
        index = self.chooser.findData(str(paths[0]))
        if index == self.chooser.currentIndex():
            self._choose(index)
        else:
            self.chooser.setCurrentIndex(index)
        self.refresh()

    def _choose(self, index: int) -> None:
        name = self.chooser.itemData(index)
        if name is None:
            return
        if self._job is not None:
            self.desk.runner.abandon([self._job])
        self._say("")
        self._job = Job("look", name, Task("inspect", {"path": Path(name)}))
        self.desk.runner.submit([self._job], self.desk.runner.LOOK)

    def _on_job(self, job: Job) -> None:
        if job is not self._job or not job.state.over:
            return
        self._job = None
        self.desk.jobs.forget([job])
        if job.failure is not None:
            self.shown = None
            self._say("" if job.failure.cancelled else job.failure.message)
        else:
            self.show_inspection(job.result)
        self.refresh()

    def place(self) -> str:
        """See `Intake.place`: beside what is shown."""
        return beside([self.shown.path if self.shown is not None else None])

    def leave(self) -> None:
        """Stop looking: the panel goes."""
        if self._job is not None:
            self.desk.runner.abandon([self._job])
            self._job = None

    def _say(self, text: str) -> None:
        if self._notice is not None:
            self._notice.hide()
            self._notice.deleteLater()
            self._notice = None
        if text:
            self._notice = Notice(self.look, text, kind="bad", closable=False)
            self._news.addWidget(self._notice)
            self._notice.show()

    # --- showing ---

    def show_inspection(self, found: Inspection) -> None:
        """Show what was found."""
        self.shown = found
        self._show_picture(found.picture, found.picture_note)
        while self._grid.count():
            widget = self._grid.takeAt(0).widget()
            widget.hide()
            widget.deleteLater()
        line = 0
        title = label(breakable(found.title), wrap=True)
        title.setObjectName("cardTitle")
        title.setToolTip(str(found.path))
        self._grid.addWidget(title, line, 0, 1, 2)
        for section in found.sections:
            for name, value in section.facts:
                line += 1
                value_label = label(value, wrap=True)
                value_label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
                self._grid.addWidget(label(name, muted=True), line, 0, Qt.AlignmentFlag.AlignTop)
                value_label.setAlignment(Qt.AlignmentFlag.AlignTop)  # beside its name, however many lines
                self._grid.addWidget(value_label, line, 1, Qt.AlignmentFlag.AlignTop)
        self._grid.setRowStretch(line + 1, 1)
        first = found.members[0].name if found.members else found.title
        self.map.show_file(f"The original, {first}, from its first to its last byte",
                           found.original_map, found.archive_map)  # fmt: skip
        self.members.rows.remove(list(self.members.rows.root.children))
        self.members.rows.add(
            Row(member.name, None, "file", member.sha256, member.size) for member in found.members
        )
        self.members.setVisible(bool(found.members))
        # Short lists are shown whole.
        rows = min(12, len(found.members)) + 1.2
        self.members.setMinimumHeight(round(rows * self.fontMetrics().height() * 1.9))

    def _show_picture(self, picture: Picture | None, note: str) -> None:
        side = self.fontMetrics().height() * _PICTURE
        if picture is None:
            self.picture.setText(note)
            self.picture.setWordWrap(True)
            self.picture.setProperty("muted", "true")
            self.picture.setFixedWidth(side)
            return
        image = QImage(
            picture.pixels, picture.width, picture.height, 3 * picture.width, QImage.Format.Format_RGB888
        ).copy()
        ratio = self.devicePixelRatioF()
        pixmap = QPixmap.fromImage(image).scaled(
            QSize(round(side * ratio), round(side * ratio)),
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        pixmap.setDevicePixelRatio(ratio)
        self.picture.setPixmap(pixmap)
        self.picture.setFixedWidth(side)
        self.picture.setToolTip("The middle plane, channels in their colours")

    def copy(self) -> None:
        """Copy everything as text."""
        if self.shown is not None:
            QGuiApplication.clipboard().setText(self.shown.text())

    def _open(self) -> None:
        if self.shown is not None and self.desk.open_images is not None:
            self.desk.open_images([self.shown.path])

    def _hand(self, key: str) -> None:
        if self.shown is not None:
            self.handed.emit(key, [self.shown.path])
