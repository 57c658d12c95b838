"""The style sheet of our widgets: the same inside napari and in the window, in the theme's colours."""

from __future__ import annotations

from qtpy.QtGui import QFont, QFontInfo

from napari_decant.gui._theme import Theme, icon_file, mix

__all__ = ["style_sheet"]


def style_sheet(theme: Theme, font: QFont) -> str:
    """Style sheet for the root widget of a panel.

    Only what is ours is styled; buttons and boxes elsewhere keep the look of the program around them.
    Lengths are in em and titles a multiple of ``font``, so that everything grows with it.
    """
    t = theme
    title, large = (f"{round(factor * QFontInfo(font).pointSizeF(), 1)}pt" for factor in (1.35, 1.6))
    pressed = mix(t.accent, "#000000", 0.15)
    hovered = mix(t.accent, "#ffffff" if t.dark else "#000000", 0.12)
    faint = mix(t.surface, t.accent, 0.10)
    warned = mix(t.surface, t.warn, 0.14)
    wrong = mix(t.surface, t.bad, 0.12)
    edge = mix(t.muted, t.surface, 0.3)
    kind = "dark" if t.dark else "light"
    check, partly, down, up, on, off = (
        icon_file(f"{name}-{kind}").as_posix() for name in ("check", "partly", "down", "up", "on", "off")
    )
    return f"""
#decantPanel, #decantPage {{ background: {t.window}; color: {t.text}; }}
#decantPanel QLabel, #decantCard QLabel {{ background: transparent; color: {t.text}; }}
#decantPanel QLabel[muted="true"], #decantCard QLabel[muted="true"] {{ color: {t.muted}; }}

#decantForm, #decantFormArea, #decantFormArea > QWidget {{ background: transparent; }}

#decantDrop {{ background: {t.surface}; border: 2px dashed {t.border}; border-radius: 10px; }}
#decantDrop[hot="true"] {{ border-color: {t.accent}; background: {faint}; }}
#decantDrop[strip="true"] {{ border-width: 1px; border-radius: 6px; }}
#decantDrop QLabel#dropTitle {{ font-size: {large}; }}

#decantCard {{ background: {t.surface}; border: 1px solid {t.border}; border-radius: 10px; }}
QLabel#cardTitle {{ font-size: {title}; font-weight: 600; }}
#decantNotice {{ background: {faint}; border: 1px solid {mix(t.border, t.accent, 0.5)}; border-radius: 6px; }}
#decantNotice[kind="warn"] {{ background: {warned}; border-color: {mix(t.border, t.warn, 0.5)}; }}
#decantNotice[kind="bad"] {{ background: {wrong}; border-color: {mix(t.border, t.bad, 0.5)}; }}
#decantNotice QLabel {{ background: transparent; color: {t.text}; }}

QTreeView#decantTable {{
    background: {t.surface}; color: {t.text}; border: 1px solid {t.border}; border-radius: 6px; outline: 0;
    alternate-background-color: {t.surface};
}}
QTreeView#decantTable::item {{ padding: 0.25em 0.3em; border: 0; }}
QTreeView#decantTable::item:hover {{ background: {t.hover}; }}
QTreeView#decantTable::item:selected {{ background: {t.selection}; color: {t.text}; }}
QTreeView#decantTable QHeaderView {{ background: {t.surface}; }}
QTreeView#decantTable QHeaderView::section {{
    background: {t.surface}; color: {t.muted}; border: 0; border-bottom: 1px solid {t.border};
    padding: 0.35em 0.5em;
}}
#decantDetail {{ background: {t.surface}; border: 1px solid {t.border}; border-radius: 6px; }}

QPushButton[main="true"] {{
    background: {t.accent}; color: {t.on_accent}; border: 1px solid {t.accent}; border-radius: 6px;
    padding: 0.5em 1.2em; font-weight: 600;
}}
QPushButton[main="true"]:hover {{ background: {hovered}; border-color: {hovered}; }}
QPushButton[main="true"]:pressed {{ background: {pressed}; }}
QPushButton[main="true"]:focus {{ border: 2px solid {t.text}; }}
QPushButton[main="true"]:disabled {{
    background: {t.raised}; color: {mix(t.muted, t.window, 0.25)}; border-color: {t.border};
}}
QPushButton[main="danger"] {{
    background: {t.bad}; color: {t.on_accent}; border: 1px solid {t.bad}; border-radius: 6px;
    padding: 0.5em 1.2em; font-weight: 600;
}}
QPushButton[main="danger"]:focus {{ border: 2px solid {t.text}; }}
QPushButton[main="danger"]:disabled {{
    background: {t.raised}; color: {mix(t.muted, t.window, 0.25)}; border-color: {t.border};
}}
QPushButton[side="true"] {{
    background: {t.surface}; color: {t.text}; border: 1px solid {t.border}; border-radius: 6px;
    padding: 0.45em 0.9em;
}}
QPushButton[side="true"]:hover {{ background: {t.hover}; border-color: {t.muted}; }}
QPushButton[side="true"]:focus {{ border: 2px solid {t.accent}; }}
QPushButton[side="true"]:disabled {{ color: {mix(t.muted, t.window, 0.25)}; background: {t.window}; }}
QToolButton[flat="true"] {{
    background: transparent; color: {t.text}; border: 1px solid transparent; border-radius: 5px;
    padding: 0.3em 0.5em;
}}
QToolButton[flat="true"]:hover {{ background: {t.hover}; }}
QToolButton[flat="true"]:focus {{ border-color: {t.accent}; }}

QPushButton[main="true"], QPushButton[main="danger"], QPushButton[side="true"], QToolButton[flat="true"],
QToolButton#decantTab {{ icon-size: 1.15em; }}

#decantPanel QLineEdit, #decantPage QLineEdit {{
    background: {t.surface}; color: {t.text}; border: 1px solid {t.border}; border-radius: 5px;
    padding: 0.25em 0.4em;
}}
#decantPanel QLineEdit:focus, #decantPage QLineEdit:focus {{ border-color: {t.accent}; }}
#decantPanel QListWidget {{
    background: {t.surface}; color: {t.text}; border: 1px solid {t.border}; border-radius: 5px;
}}
#decantPanel QListWidget:focus {{ border-color: {t.accent}; }}
#decantPanel QListWidget::item {{ padding: 0.1em; border: 1px solid transparent; border-radius: 3px; }}
#decantPanel QListWidget::item:focus {{ border-color: {t.accent}; }}
#decantForm QComboBox, #decantForm QAbstractSpinBox {{
    background: {t.surface}; color: {t.text}; border: 1px solid {t.border}; border-radius: 5px;
    padding: 0.25em 0.4em; min-height: 1.15em;
}}
#decantForm QComboBox:focus, #decantForm QAbstractSpinBox:focus {{ border-color: {t.accent}; }}
#decantForm QComboBox::drop-down {{ background: transparent; border: 0; width: 1.8em; }}
#decantForm QAbstractSpinBox::up-button, #decantForm QAbstractSpinBox::down-button {{
    background: transparent; border: 0; width: 1.8em; subcontrol-origin: border;
}}
#decantForm QAbstractSpinBox::up-button {{ subcontrol-position: top right; }}
#decantForm QAbstractSpinBox::down-button {{ subcontrol-position: bottom right; }}
#decantForm QComboBox::down-arrow, #decantForm QAbstractSpinBox::down-arrow {{
    image: url("{down}"); width: 0.8em; height: 0.8em;
}}
#decantForm QAbstractSpinBox::up-arrow {{ image: url("{up}"); width: 0.8em; height: 0.8em; }}
#decantPanel QAbstractSpinBox QLineEdit, #decantPanel QComboBox QLineEdit {{ border: 0; padding: 0; }}
#decantPanel QCheckBox, #decantPage QCheckBox, #decantPage QRadioButton {{
    background: transparent; color: {t.text}; spacing: 0.5em;
}}
#decantPanel QCheckBox::indicator, #decantPage QCheckBox::indicator,
QTreeView#decantTable::indicator, #decantPanel QListWidget::indicator {{
    width: 1em; height: 1em; background: {t.surface}; border: 1px solid {edge}; border-radius: 3px;
}}
#decantPanel QCheckBox::indicator:checked, #decantPage QCheckBox::indicator:checked,
QTreeView#decantTable::indicator:checked, #decantPanel QListWidget::indicator:checked {{
    background: {t.accent}; border-color: {t.accent}; image: url("{check}");
}}
#decantPage QRadioButton::indicator {{ width: 1.15em; height: 1.15em; image: url("{off}"); }}
#decantPage QRadioButton::indicator:checked {{ image: url("{on}"); }}
#decantPage QRadioButton:focus {{ color: {t.accent}; }}
QTreeView#decantTable::indicator:indeterminate {{
    background: {t.accent}; border-color: {t.accent}; image: url("{partly}");
}}
#decantPanel QCheckBox:focus, #decantPage QCheckBox:focus {{ color: {t.accent}; }}

QProgressBar#decantBar {{
    background: {t.raised}; border: 0; border-radius: 4px; max-height: 0.6em; min-height: 0.6em;
}}
QProgressBar#decantBar::chunk {{ background: {t.accent}; border-radius: 4px; }}

QToolButton#decantTab {{
    background: transparent; color: {t.muted}; border: 0; border-bottom: 3px solid transparent;
    padding: 0.55em 0.9em 0.45em 0.7em; font-weight: 600;
}}
QToolButton#decantTab:hover {{ color: {t.text}; }}
QToolButton#decantTab:checked {{ color: {t.text}; border-bottom-color: {t.accent}; }}
QToolButton#decantTab:focus {{ background: {t.hover}; }}
#decantTabs {{ background: {t.surface}; border-bottom: 1px solid {t.border}; }}
"""
